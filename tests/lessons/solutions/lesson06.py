"""Lesson 6: clipped noise."""

NAME = "smooth"

HEAD = "def smooth(next_action, noise, policy_noise, noise_clip, max_action):\n"
RIGHT = """
    smoothing = (policy_noise * noise).clamp(-noise_clip, noise_clip)
    return (next_action + max_action * smoothing).clamp(-max_action, max_action)
"""
SOLUTION = HEAD + RIGHT + "\n\ncheck(6, smooth)\n"

SCALED = "(policy_noise * noise).clamp(-noise_clip, noise_clip)"
CLAMPED = ".clamp(-max_action, max_action)"
DRAWN = "policy_noise * torch.randn_like(noise)"

MISTAKES = {
    HEAD.strip() + " ...": "not filled yet",
    HEAD + RIGHT.replace(SCALED, "policy_noise * noise"): "The noise is not clipped",
    HEAD + RIGHT.replace(CLAMPED, ""): "The action leaves its range",
    HEAD + "    return next_action + max_action * policy_noise * noise": "Neither the noise",
    HEAD + RIGHT.replace("max_action * smoothing", "smoothing"): "are shares of max_action",
    HEAD + RIGHT.replace("max_action * smoothing", "smoothing").replace(CLAMPED, ""): (
        "must be clamped to ±max_action"
    ),
    HEAD + RIGHT.replace(SCALED, "policy_noise * noise.clamp(-noise_clip, noise_clip)"): (
        "clipped before it is scaled"
    ),
    HEAD
    + RIGHT.replace("(policy_noise", "(max_action * policy_noise").replace(
        "+ max_action *", "+"
    ): "with max_action before the clip",
    HEAD + RIGHT.replace("(policy_noise * noise)", "noise"): "policy_noise is missing",
    HEAD + RIGHT.replace("* noise)", "* noise[:1])"): "One noise vector serves the whole batch",
    HEAD + RIGHT.replace("* noise)", "* noise[:, :1])"): "One number of noise",
    HEAD + RIGHT.replace(CLAMPED, ".clamp(-1, 1)"): "clamped to ±1",
    HEAD + RIGHT.replace(CLAMPED, ".clamp(-noise_clip, noise_clip)"): "clamped to ±noise_clip",
    HEAD + RIGHT.replace("+ max_action", "- max_action"): "The noise is subtracted",
    HEAD + "    return next_action": "The noise is not added",
    HEAD + RIGHT.replace("policy_noise * noise", DRAWN): "differs from step 6",
}
