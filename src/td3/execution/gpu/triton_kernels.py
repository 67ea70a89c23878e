# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels: many networks with two hidden layers, Adam, and sampling.

Each activation is computed where it is used. The first layer is computed chunk by chunk inside the
product of the second, and the output layer while the second is still in registers. Activations for
the backward pass are stored on the way. `flat` has the parameters of one network per row, in the
order of `StackedMLP`: weight 1, bias 1, weight 2, bias 2, weight 3, bias 3.
"""

import triton
import triton.language as tl


@triton.jit
def forward_kernel(
    x,
    flat,
    out,
    hidden_1,
    hidden_2,
    x_network,
    x_row,
    flat_network,
    BATCH: tl.constexpr,
    INPUTS: tl.constexpr,
    WIDTH_1: tl.constexpr,
    WIDTH_2: tl.constexpr,
    OUTPUTS: tl.constexpr,
    PADDED_INPUTS: tl.constexpr,
    PADDED_WIDTH: tl.constexpr,
    PADDED_OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
    KEEP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Compute all three layers for some rows of one network's batch."""
    network = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    in_batch = rows < BATCH
    inputs = tl.arange(0, PADDED_INPUTS)
    width = tl.arange(0, PADDED_WIDTH)
    is_input, in_width = inputs < INPUTS, width < WIDTH_2
    weight_1 = flat + network * flat_network
    bias_1 = weight_1 + INPUTS * WIDTH_1
    weight_2 = bias_1 + WIDTH_1
    bias_2 = weight_2 + WIDTH_1 * WIDTH_2
    weight_3 = bias_2 + WIDTH_2
    bias_3 = weight_3 + WIDTH_2 * OUTPUTS

    states = tl.load(
        x + network * x_network + rows[:, None] * x_row + inputs[None, :],
        mask=in_batch[:, None] & is_input[None, :],
        other=0.0,
    )
    total = tl.zeros((ROWS, PADDED_WIDTH), tl.float32)
    for start in range(0, WIDTH_1, CHUNK):
        chunk = start + tl.arange(0, CHUNK)
        in_chunk = chunk < WIDTH_1
        first = tl.load(
            weight_1 + inputs[:, None] * WIDTH_1 + chunk[None, :],
            mask=is_input[:, None] & in_chunk[None, :],
            other=0.0,
        )
        hidden = tl.dot(states, first, input_precision=PRECISION)
        hidden += tl.load(bias_1 + chunk, mask=in_chunk, other=0.0)[None, :]
        hidden = tl.maximum(hidden, 0.0, propagate_nan=tl.PropagateNan.ALL)
        if KEEP:
            tl.store(
                hidden_1 + (network * BATCH + rows[:, None]) * WIDTH_1 + chunk[None, :],
                hidden,
                mask=in_batch[:, None] & in_chunk[None, :],
            )
        second = tl.load(
            weight_2 + chunk[:, None] * WIDTH_2 + width[None, :],
            mask=in_chunk[:, None] & in_width[None, :],
            other=0.0,
        )
        total = tl.dot(hidden, second, total, input_precision=PRECISION)
    total += tl.load(bias_2 + width, mask=in_width, other=0.0)[None, :]
    total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if KEEP:
        tl.store(
            hidden_2 + (network * BATCH + rows[:, None]) * WIDTH_2 + width[None, :],
            total,
            mask=in_batch[:, None] & in_width[None, :],
        )
    if OUTPUTS == 1:
        head = tl.load(weight_3 + width, mask=in_width, other=0.0)
        value = tl.sum(total * head[None, :], axis=1) + tl.load(bias_3)
        tl.store(out + network * BATCH + rows, value, mask=in_batch)
    else:
        outputs = tl.arange(0, PADDED_OUTPUTS)
        is_output = outputs < OUTPUTS
        heads = tl.load(
            weight_3 + width[:, None] * OUTPUTS + outputs[None, :],
            mask=in_width[:, None] & is_output[None, :],
            other=0.0,
        )
        values = tl.dot(total, heads, input_precision=PRECISION)
        values += tl.load(bias_3 + outputs, mask=is_output, other=0.0)[None, :]
        tl.store(
            out + (network * BATCH + rows[:, None]) * OUTPUTS + outputs[None, :],
            values,
            mask=in_batch[:, None] & is_output[None, :],
        )


@triton.jit
def backward_kernel(
    out_gradient,
    x,
    flat,
    hidden_1,
    hidden_2,
    gradient_2,
    x_gradient,
    partial,
    x_network,
    x_row,
    flat_network,
    BATCH: tl.constexpr,
    INPUTS: tl.constexpr,
    WIDTH_1: tl.constexpr,
    WIDTH_2: tl.constexpr,
    OUTPUTS: tl.constexpr,
    PADDED_INPUTS: tl.constexpr,
    PADDED_WIDTH: tl.constexpr,
    PADDED_OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
    TO_INPUT: tl.constexpr,
    TO_WEIGHTS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Compute the gradient of the input or of the weights, for some rows of the batch.

    It skips the weights of the second layer, whose gradient is a separate matrix product. The other
    gradients go to `partial`, (network, program, number); `sum_kernel` adds them up.
    """
    network = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    in_batch = rows < BATCH
    width = tl.arange(0, PADDED_WIDTH)
    in_width = width < WIDTH_1
    outputs = tl.arange(0, PADDED_OUTPUTS)
    is_output = outputs < OUTPUTS
    weight_1 = flat + network * flat_network
    weight_2 = weight_1 + (INPUTS + 1) * WIDTH_1
    weight_3 = weight_2 + (WIDTH_1 + 1) * WIDTH_2
    row = network * BATCH + rows
    first_numbers: tl.constexpr = (INPUTS + 1) * WIDTH_1
    last_numbers: tl.constexpr = WIDTH_2 + (WIDTH_2 + 1) * OUTPUTS
    part = network * tl.num_programs(1) + tl.program_id(1)
    partial_1 = partial + part * (first_numbers + last_numbers)
    partial_bias_2 = partial_1 + first_numbers
    partial_3 = partial_bias_2 + WIDTH_2

    if OUTPUTS == 1:
        top = tl.load(out_gradient + row, mask=in_batch, other=0.0)
    else:
        tops = tl.load(
            out_gradient + row[:, None] * OUTPUTS + outputs[None, :],
            mask=in_batch[:, None] & is_output[None, :],
            other=0.0,
        )
    total = tl.zeros((ROWS, PADDED_WIDTH), tl.float32)
    for start in range(0, WIDTH_2, CHUNK):
        chunk = start + tl.arange(0, CHUNK)
        in_chunk = chunk < WIDTH_2
        place = row[:, None] * WIDTH_2 + chunk[None, :]
        inside = in_batch[:, None] & in_chunk[None, :]
        if OUTPUTS == 1:
            head = tl.load(weight_3 + chunk, mask=in_chunk, other=0.0)
            gradient = top[:, None] * head[None, :]
        else:
            heads = tl.load(
                weight_3 + chunk[None, :] * OUTPUTS + outputs[:, None],
                mask=in_chunk[None, :] & is_output[:, None],
                other=0.0,
            )
            gradient = tl.dot(tops, heads, input_precision=PRECISION)
        hidden = tl.load(hidden_2 + place, mask=inside, other=0.0)
        gradient = tl.where(hidden <= 0, 0.0, gradient)  # NaN stays NaN
        if TO_WEIGHTS:
            tl.store(gradient_2 + place, gradient, mask=inside)
            tl.store(partial_bias_2 + chunk, tl.sum(gradient, axis=0), mask=in_chunk)
            if OUTPUTS == 1:
                tl.store(partial_3 + chunk, tl.sum(hidden * top[:, None], axis=0), mask=in_chunk)
            else:
                tl.store(
                    partial_3 + chunk[:, None] * OUTPUTS + outputs[None, :],
                    tl.dot(tl.trans(hidden), tops, input_precision=PRECISION),
                    mask=in_chunk[:, None] & is_output[None, :],
                )
        second = tl.load(
            weight_2 + width[None, :] * WIDTH_2 + chunk[:, None],
            mask=in_width[None, :] & in_chunk[:, None],
            other=0.0,
        )
        total = tl.dot(gradient, second, total, input_precision=PRECISION)
    place = row[:, None] * WIDTH_1 + width[None, :]
    inside = in_batch[:, None] & in_width[None, :]
    total = tl.where(tl.load(hidden_1 + place, mask=inside, other=0.0) <= 0, 0.0, total)
    inputs = tl.arange(0, PADDED_INPUTS)
    is_input = inputs < INPUTS
    if TO_WEIGHTS:
        # An extra input of ones gives the gradient of the bias as another row of the product.
        states = tl.load(
            x + network * x_network + rows[None, :] * x_row + inputs[:, None],
            mask=in_batch[None, :] & is_input[:, None],
            other=0.0,
        )
        states = tl.where((inputs == INPUTS)[:, None], 1.0, states)
        tl.store(
            partial_1 + inputs[:, None] * WIDTH_1 + width[None, :],
            tl.dot(states, total, input_precision=PRECISION),
            mask=(inputs <= INPUTS)[:, None] & in_width[None, :],
        )
        if OUTPUTS == 1:
            tl.store(partial_3 + WIDTH_2, tl.sum(top, axis=0))
        else:
            tl.store(partial_3 + WIDTH_2 * OUTPUTS + outputs, tl.sum(tops, axis=0), mask=is_output)
    if TO_INPUT:
        first = tl.load(
            weight_1 + inputs[None, :] * WIDTH_1 + width[:, None],
            mask=is_input[None, :] & in_width[:, None],
            other=0.0,
        )
        down = tl.dot(total, first, input_precision=PRECISION)
        tl.store(
            x_gradient + row[:, None] * INPUTS + inputs[None, :],
            down,
            mask=in_batch[:, None] & is_input[None, :],
        )


@triton.jit
def sum_kernel(
    partial,
    flat_gradient,
    flat_network,
    PARTS: tl.constexpr,
    FIRST: tl.constexpr,
    SKIPPED: tl.constexpr,
    LAST: tl.constexpr,
    PADDING: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add up the partial gradients of `backward_kernel`, without the second layer."""
    network = tl.program_id(0).to(tl.int64)
    numbers = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    exists = numbers < FIRST + LAST
    total = tl.zeros((BLOCK,), tl.float32)
    for part in range(PARTS):
        place = (network * PARTS + part) * (FIRST + LAST) + numbers
        total += tl.load(partial + place, mask=exists, other=0.0)
    place = network * flat_network + numbers + tl.where(numbers < FIRST, 0, SKIPPED)
    tl.store(flat_gradient + place, total, mask=numbers < FIRST + LAST + PADDING)


@triton.jit
def adam_kernel(
    parameter,
    gradient,
    mean,
    square,
    rate,
    correction_1,
    correction_2,
    numbers,
    per_agent,
    beta_1,
    beta_2,
    eps,
    BLOCK: tl.constexpr,
):
    """Adam's step in one pass. `rate` and both corrections have one number per agent."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = place < numbers
    agent = place // per_agent
    slope = tl.load(gradient + place, mask=exists, other=0.0)
    first = tl.load(mean + place, mask=exists, other=0.0)
    second = tl.load(square + place, mask=exists, other=0.0)
    value = tl.load(parameter + place, mask=exists, other=0.0)
    first += (1 - beta_1) * (slope - first)
    second = beta_2 * second + (1 - beta_2) * slope * slope
    mean_hat = first / tl.load(correction_1 + agent, mask=exists, other=1.0)
    square_hat = second / tl.load(correction_2 + agent, mask=exists, other=1.0)
    size = tl.load(rate + agent, mask=exists, other=0.0)
    value -= size * mean_hat / (tl.sqrt(square_hat) + eps)
    tl.store(mean + place, first, mask=exists)
    tl.store(square + place, second, mask=exists)
    tl.store(parameter + place, value, mask=exists)


@triton.jit
def sample_kernel(
    ring,
    uniform,
    position,
    sizes,
    picked,
    capacity,
    agents,
    AHEAD: tl.constexpr,
    BATCH: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED_WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gather rows of one agent's batch with the random numbers of the current update."""
    agent = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    in_batch = rows < BATCH
    at = tl.load(position)
    block = ((at // AHEAD) * agents + agent) * AHEAD + at % AHEAD
    numbers = tl.load(uniform + block * BATCH + rows, mask=in_batch, other=0.0)
    place = (numbers * tl.load(sizes + agent).to(tl.float64)).to(tl.int64)
    columns = tl.arange(0, PADDED_WIDTH)
    inside = in_batch[:, None] & (columns < WIDTH)[None, :]
    taken = tl.load(
        ring + (agent * capacity + place)[:, None] * WIDTH + columns[None, :], mask=inside
    )
    tl.store(
        picked + (agent * BATCH + rows)[:, None] * WIDTH + columns[None, :], taken, mask=inside
    )


@triton.jit
def pictures_kernel(
    images,
    places,
    shifts,
    out,
    frame,
    start,
    shift_row,
    SIZE: tl.constexpr,
    STACK: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    BESIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Copy bytes of one stored image, shifted down and right, with repeated edges."""
    picture = tl.program_id(0)
    numbers = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = numbers < SIZE
    shift = shifts + (picture // STACK) * shift_row
    down, right = tl.load(shift).to(tl.int32), tl.load(shift + 1).to(tl.int32)
    line, within = numbers // (WIDTH * BESIDE), numbers % (WIDTH * BESIDE)
    row = tl.minimum(tl.maximum(line % HEIGHT - down, 0), HEIGHT - 1)
    column = tl.minimum(tl.maximum(within // BESIDE - right, 0), WIDTH - 1)
    line += row - line % HEIGHT
    source = (line * WIDTH + column) * BESIDE + within % BESIDE
    stored = images + tl.load(places + picture) * frame + start
    taken = tl.load(stored + source, mask=inside)
    tl.store(out + picture.to(tl.int64) * SIZE + numbers, taken, mask=inside)
