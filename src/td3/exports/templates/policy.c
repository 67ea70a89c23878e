/* A trained policy, see policy.h. Written by `td3 export --to c`; do not edit.
 *
 * Weights are float, all arithmetic is double.
 */
#include "policy.h"

#include <math.h>
#include <string.h>

#if defined(__FAST_MATH__) || defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "-ffast-math removes the check for NaN; compile policy.c without it"
#endif

#if defined(__STDC_VERSION__) && __STDC_VERSION__ < 199901L
#error "policy.c needs C99"
#endif

const double policy_low[POLICY_OUTPUTS] = {
@LOW@
};

const double policy_high[POLICY_OUTPUTS] = {
@HIGH@
};

@TABLES@

@FUNCTIONS@

static double within(double number, double low, double high)
{
    return number < low ? low : number > high ? high : number;
}

/* Read one observation as the network sees it; 0 if it is not valid. */
static int read_observation(const float *observation, float *frame)
{
    int valid = 1;
@READ@
    return valid;
}

/* Put the newest observation at the end of the state. */
static void push(policy_t *policy, const float *frame)
{
    int k;
    if (!policy->filled) {
        for (k = 0; k < POLICY_STACK; k++)
            memcpy(policy->frames + k * POLICY_FRAME, frame, sizeof(float) * POLICY_FRAME);
        policy->filled = 1;
    } else {
        memmove(policy->frames, policy->frames + POLICY_FRAME,
                sizeof(float) * (POLICY_STATE - POLICY_FRAME));
        memcpy(policy->frames + (POLICY_STATE - POLICY_FRAME), frame, sizeof(float) * POLICY_FRAME);
    }
    for (k = 0; k < POLICY_STATE; k++)
        policy->state[k] = (double)policy->frames[k];
}

void policy_reset(policy_t *policy)
{
    policy->filled = 0;
}

int policy_act(policy_t *policy, const float observation[POLICY_INPUTS],
               double action[POLICY_OUTPUTS])
{
    /* Until it is known to be valid, the observation waits in the work space. */
    float *frame = policy->incoming;
    int k;

    for (k = 0; k < POLICY_OUTPUTS; k++)
        action[k] = within(0.0, policy_low[k], policy_high[k]);
    if (!read_observation(observation, frame))
        return POLICY_INVALID_OBSERVATION;
    push(policy, frame);

@STEPS@

    for (k = 0; k < POLICY_OUTPUTS; k++)
        if (!isfinite(@RESULT@[k]))
            return POLICY_INVALID_ACTION;
    for (k = 0; k < POLICY_OUTPUTS; k++) {
        const double share = (@RESULT@[k] + 1.0) / 2.0;
        const double scaled = policy_low[k] * (1.0 - share) + policy_high[k] * share;
        action[k] = within(scaled, policy_low[k], policy_high[k]);
    }
    return POLICY_OK;
}
