/* The functions of exported policies. `td3 export` copies those that a policy needs. */

/* function numbers */
static int read_numbers(const float *observation, int size, float *frame)
{
    int k, valid = 1;
    for (k = 0; k < size; k++) {
        valid &= isfinite(observation[k]) != 0;
        frame[k] = observation[k];
    }
    return valid;
}

/* function choices */
static int read_choice(float number, int start, int count, float *frame)
{
    int k, found = 0;
    for (k = 0; k < count; k++) {
        const int chosen = number == (float)(start + k);
        frame[k] = chosen ? 1.0f : 0.0f;
        found |= chosen;
    }
    return found;
}

/* function image */
static int read_image(const float *observation, int size, float low, float high, float factor,
                      float *frame)
{
    const float margin = 0.001f * (high - low);
    int k, valid = 1;
    for (k = 0; k < size; k++) {
        float pixel = observation[k];
        valid &= pixel >= low - margin && pixel <= high + margin;
        pixel = pixel < low ? low : pixel > high ? high : pixel;
        pixel = (pixel - low) * factor;
        frame[k] = rintf(pixel);
    }
    return valid;
}

/* function normalize */
static void normalize(double *x, int size, const float *shift, const float *scale, double clip)
{
    int k;
    for (k = 0; k < size; k++) {
        const double shifted = (x[k] - (double)shift[k]) * (double)scale[k];
        x[k] = shifted < -clip ? -clip : shifted > clip ? clip : shifted;
    }
}

/* function dense */
static void dense(const double *restrict x, int inputs, const float *restrict weight,
                  const float *restrict bias, double *restrict y, int outputs)
{
    int i, j;
    for (j = 0; j < outputs; j++)
        y[j] = (double)bias[j];
    for (i = 0; i < inputs; i++) {
        const double input = x[i];
        const float *restrict row = weight + (size_t)i * (size_t)outputs;
        if (input != 0.0) /* many are zero after relu */
            for (j = 0; j < outputs; j++)
                y[j] += input * (double)row[j];
    }
}

/* function relu */
static void relu(double *x, int size)
{
    int k;
    for (k = 0; k < size; k++)
        x[k] = x[k] < 0.0 ? 0.0 : x[k];
}

/* function tanh */
static void apply_tanh(double *x, int size)
{
    int k;
    for (k = 0; k < size; k++)
        x[k] = tanh(x[k]);
}

/* function layer_norm */
static void layer_norm(double *x, int size, double epsilon)
{
    double mean = 0.0, variance = 0.0;
    int k;
    for (k = 0; k < size; k++)
        mean += x[k] / size;
    for (k = 0; k < size; k++)
        variance += (x[k] - mean) * (x[k] - mean) / size;
    for (k = 0; k < size; k++)
        x[k] = (x[k] - mean) / sqrt(variance + epsilon);
}

/* function rms_norm */
static void rms_norm(double *x, int size, double epsilon)
{
    double square = 0.0;
    int k;
    for (k = 0; k < size; k++)
        square += x[k] * x[k] / size;
    for (k = 0; k < size; k++)
        x[k] /= sqrt(square + epsilon);
}

/* function add */
static void add(double *x, const double *y, int size)
{
    int k;
    for (k = 0; k < size; k++)
        x[k] += y[k];
}

/* function pixels */
static void pixels(double *x, int size)
{
    int k;
    for (k = 0; k < size; k++)
        x[k] = x[k] / 255.0 - 0.5;
}

/* function convolve */
static void convolve(const double *restrict x, const float *restrict weight,
                     const float *restrict bias, double *restrict y, int channels, int height,
                     int width, int kernel, int stride, int outputs)
{
    const int rows = (height - kernel) / stride + 1, columns = (width - kernel) / stride + 1;
    int o, c, i, j, row, column;
    for (o = 0; o < outputs; o++) {
        double *image = y + o * rows * columns;
        for (i = 0; i < rows * columns; i++)
            image[i] = (double)bias[o];
        for (c = 0; c < channels; c++)
            for (i = 0; i < kernel; i++)
                for (j = 0; j < kernel; j++) {
                    const double w = (double)weight[((o * channels + c) * kernel + i) * kernel + j];
                    for (row = 0; row < rows; row++) {
                        const double *from = x + (c * height + row * stride + i) * width + j;
                        for (column = 0; column < columns; column++)
                            image[row * columns + column] += w * from[column * stride];
                    }
                }
    }
}

/* function gather */
static void gather(const double *x, const int *index, int size, double *y)
{
    int k;
    for (k = 0; k < size; k++)
        y[k] = x[index[k]];
}

/* function append */
static void append(const double *x, int size, double *y)
{
    memcpy(y, x, sizeof(double) * (size_t)size);
}
