/* A trained policy. Written by `td3 export --to c`.
 *
@FACTS@
 *
 * C99, no allocation, no global state. All memory is in the struct:
 *
 *     static policy_t policy;
 *     policy_reset(&policy);                          at the start of each episode
 *     if (policy_act(&policy, observation, action))   nonzero: the safe action
 *         ...
 */
#ifndef POLICY_H
#define POLICY_H

#ifdef __cplusplus
extern "C" {
#endif

#define POLICY_INPUTS @INPUTS@  /* numbers of one observation */
#define POLICY_OUTPUTS @OUTPUTS@ /* numbers of one action */
#define POLICY_STACK @STACK@   /* observations in one state; the policy keeps the last ones */
#define POLICY_FRAME @FRAME@   /* numbers that one observation becomes */
#define POLICY_STATE @STATE@   /* numbers of one state */
#define POLICY_SHA256 "@SHA@" /* of the weights, as in the policy file */
@OFFSETS@

enum {
    POLICY_OK = 0,
    POLICY_INVALID_OBSERVATION = 1, /* NaN, infinity, no such choice, or a pixel out of range */
    POLICY_INVALID_ACTION = 2       /* the network overflowed */
};

/* What the policy remembers and works with. Threads need one each. */
typedef struct {
    float frames[POLICY_STATE]; /* oldest first */
    int filled;                 /* whether an observation has come since the reset */
    float incoming[POLICY_FRAME];
    double state[POLICY_STATE];
    double a[@WIDEST@];
    double b[@WIDEST@];
    double joined[@JOINED@];
} policy_t;

/* Forget the observations of the last episode. */
void policy_reset(policy_t *policy);

/* Compute the action for one observation, in the units of the actuators.
 *
 * Every call writes an action within the bounds. If the result is not POLICY_OK, it is the safe
 * action: zero within the bounds. Such an observation does not enter the frame stack.
 */
int policy_act(policy_t *policy, const float observation[POLICY_INPUTS],
               double action[POLICY_OUTPUTS]);

/* The bounds of the actions. */
extern const double policy_low[POLICY_OUTPUTS];
extern const double policy_high[POLICY_OUTPUTS];

#ifdef __cplusplus
}
#endif

#endif
