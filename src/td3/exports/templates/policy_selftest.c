/* Compare the policy with recorded actions and measure its time:
 *
 *     ./policy_selftest [policy_vectors.bin]
 *
 * The file has the observations of all vectors as float, then their actions as double, both
 * little-endian. Only this test reads a file and allocates memory.
 */
#include "policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TOLERANCE 1e-6 /* of the range of each action */
#define FLOATS ((size_t)POLICY_STACK * POLICY_INPUTS)
#define BYTES (FLOATS * sizeof(float) + POLICY_OUTPUTS * sizeof(double))
#define REPEATS 10000

static policy_t policy;

/* The largest error of one vector, as a share of the action range; 1 if the policy refuses it. */
static double error_of(const float *frames, const double *expected)
{
    double action[POLICY_OUTPUTS], largest = 0.0;
    int status = POLICY_OK, k;
    policy_reset(&policy);
    for (k = 0; k < POLICY_STACK; k++)
        status |= policy_act(&policy, frames + (size_t)k * POLICY_INPUTS, action);
    if (status != POLICY_OK)
        return 1.0;
    for (k = 0; k < POLICY_OUTPUTS; k++) {
        const double span = policy_high[k] - policy_low[k];
        const double error = fabs(action[k] - expected[k]) / (span > 1e-300 ? span : 1e-300);
        if (!(error <= largest))
            largest = error;
    }
    return largest;
}

/* Whether an observation of NaN gives the safe action. */
static int refuses_nan(void)
{
    static float observation[POLICY_INPUTS];
    double action[POLICY_OUTPUTS];
    int k;
    for (k = 0; k < POLICY_INPUTS; k++)
        observation[k] = NAN;
    if (policy_act(&policy, observation, action) != POLICY_INVALID_OBSERVATION)
        return 0;
    for (k = 0; k < POLICY_OUTPUTS; k++)
        if (!(action[k] >= policy_low[k] && action[k] <= policy_high[k]))
            return 0;
    return 1;
}

/* Read a whole file; NULL if that fails. */
static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    long length;
    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (length = ftell(file)) > 0) {
        data = malloc((size_t)length);
        *size = (size_t)length;
        rewind(file);
        if (data && fread(data, 1, *size, file) != *size) {
            free(data);
            data = NULL;
        }
    }
    fclose(file);
    return data;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "policy_vectors.bin";
    size_t size = 0, count, k;
    char *data = read_file(path, &size);
    double action[POLICY_OUTPUTS], largest = 0.0, seconds;
    const float *frames;
    const char *actions;
    int safe, passed;
    clock_t begin;

    if (!data || size < BYTES) {
        fprintf(stderr, "cannot read %s\n", path);
        free(data);
        return 2;
    }
    count = size / BYTES;
    frames = (const float *)(const void *)data;
    actions = data + count * FLOATS * sizeof(float);
    for (k = 0; k < count; k++) {
        double expected[POLICY_OUTPUTS], error;
        size_t byte;
        for (byte = 0; byte < sizeof expected; byte++) /* may not be aligned */
            ((char *)expected)[byte] = actions[k * sizeof expected + byte];
        error = error_of(frames + k * FLOATS, expected);
        if (!(error <= largest))
            largest = error;
    }
    begin = clock();
    for (k = 0; k < REPEATS && clock() - begin < CLOCKS_PER_SEC / 2; k++)
        policy_act(&policy, frames + (k % count) * FLOATS, action);
    seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    safe = refuses_nan();
    passed = safe && largest <= TOLERANCE;
    printf("%s: ", passed ? "passed" : "FAILED");
    if (count >= 1000)
        printf("%lu,%03lu", (unsigned long)count / 1000, (unsigned long)count % 1000);
    else
        printf("%lu", (unsigned long)count);
    printf(" observations, largest error %.1e of the action range, NaN %s, "
           "mean %.1f us per action, %lu bytes of memory\n",
           largest, safe ? "refused" : "ACCEPTED", 1e6 * seconds / (double)k,
           (unsigned long)sizeof(policy_t));
    free(data);
    return passed ? 0 : 1;
}
