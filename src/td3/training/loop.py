"""The training loop."""

import numpy as np
import torch

from td3.errors import RunStopped
from td3.run.copies import keep_checkpoint, kept_runs
from td3.signals import StopRequest
from td3.training.collector import Ended
from td3.training.divergence import freeze_diverged
from td3.training.results import log_training, record_evaluations
from td3.training.snapshot import restore_training, save_training
from td3.training.state import TrainingState


class Training(TrainingState):
    """The loop over one step, logging, evaluation and checkpoints."""

    def loop(self, stop: StopRequest) -> None:
        """Train up to the last step, or until `stop` or a callback asks to end the run.

        Raises RunStopped if a callback failed, after a checkpoint.
        """
        callbacks, self.stop = self.callbacks, stop
        callbacks.start(self)
        if self.step == 0 and not callbacks.over:
            self.evaluate()
        elif self.finish_evaluation() and self.finished:
            self.save(last=True)  # the checkpoint has an evaluation in progress
        for_episode, for_step = callbacks.hooks["on_episode"], callbacks.hooks["on_step"]
        self.environments.keep_info = bool(for_episode)
        while not (self.finished or stop.requested or callbacks.over):
            ended = self.advance()
            self.on_step(self.step)
            if for_episode and ended:
                callbacks.call_episodes(ended)
            if for_step:
                callbacks.call("on_step")
            if self.due(self.config.loop.log_every):
                log_training(self)
            if self.is_evaluation_due:
                self.evaluate()
            if self.due(self.config.checkpoint.every) or self.save_times.due:
                self.save()
        if self.saved_at != self.step:
            self.save(last=True)
        # After a callback stopped the run, show the evaluation that still runs. Resume removes its
        # record and evaluates again, so that the record is written at its usual place.
        self.record_evaluations()
        callbacks.call("on_end")
        if callbacks.failure:
            raise callbacks.failure

    def advance(self) -> list[Ended]:
        """One step of every environment, with its updates; returns the episodes that ended.

        The order is: act, send the actions, update, store the step before, receive. Environments
        may run in other processes, and a GPU works on its own. With this order they work at the
        same time as this process: while the environments take step t, the agents are updated and
        the transitions of step t - 1 are stored.

        The price: the update of step t samples transitions up to step t - 2 (the transition of
        t - 1 is stored after the update, and that of t does not exist yet). The update in the
        authors' code samples transitions up to step t.
        """
        self.taken = self.collector.next_steps()
        self.step += self.taken
        self.schedules.apply(self.step)
        allow_gradients(self.environments.task.id)
        loop, states = self.config.loop, self.environments.states
        learning = self.step > loop.random_steps
        acting = learning or bool(self.config.start_from)
        if acting:
            chosen = self.learner.act(states)
            actions = self.collector.add_noise(chosen)
        else:
            actions = self.collector.random_actions()
        self.collector.send(actions, self.step)

        if learning and loop.update == "step" and self.replay.filled and self.taken:
            self.learner.learn(self.taken * loop.updates_per_step)
        if acting:
            self.interval.add_actions(self.collector.zero_where_frozen(chosen))
        if self.agent.normalizer:
            rows = self.collector.acting()
            self.agent.normalizer.observe(self.collector.owners[rows], states[rows])
        self.store()

        ended = self.collector.receive(self.learner.prefetch_actions)
        for episode in ended:
            self.interval.add_episode(*episode[:4])
            if loop.update == "episode":
                self.store()  # the whole episode, before learning from it
                self.learner.learn_member(episode.agent, episode.length * loop.updates_per_step)
        return ended

    def store(self) -> None:
        """Put the transitions of the pending step, if any, into the replay buffers."""
        transitions = self.collector.transitions()
        if transitions:
            self.agent.watch(transitions, self.population.discounts)
            self.learner.store(transitions)

    def due(self, every: int) -> bool:
        """Whether the last step reached or passed a multiple of `every`."""
        return self.step // every > (self.step - self.taken) // every

    def evaluate(self) -> None:
        """Start an evaluation of all agents; in the background, training continues meanwhile."""
        self.record_evaluations()
        if self.evaluations.step is not None:
            return  # the run stops before the last evaluation is complete
        freeze_diverged(self)
        self.evaluations.begin(self.step, np.flatnonzero(~self.population.frozen).tolist())
        if self.finished or not self.evaluations.background:
            self.record_evaluations()

    def finish_evaluation(self) -> bool:
        """Continue after resume as `evaluate` would have done without the stop request.

        Returns whether nothing is in progress any more.
        """
        begun = self.evaluations.step
        if begun is None:
            return False
        if begun != self.step and self.is_evaluation_due:
            self.evaluate()
        elif self.finished or not self.evaluations.background:
            self.record_evaluations()
        return self.evaluations.step is None

    @property
    def is_evaluation_due(self) -> bool:
        return self.finished or self.due(self.config.evaluation.every)

    def record_evaluations(self) -> None:
        """Wait for the evaluation that runs, if any, and write its results."""
        if records := record_evaluations(self):
            self.callbacks.call("on_evaluation", records)

    def save(self, last: bool = False) -> None:
        """Write a checkpoint. If it is not the `last` one, training continues after an error."""
        self.check_lock()
        try:
            save_training(self)
            self.keep_checkpoint()
        except OSError as error:
            remark = self.save_times.failed(error)
            if last or not remark:
                raise
            self.recorder.warn(self.step, remark)
            return
        if remark := self.save_times.saved():
            self.recorder.warn(self.step, remark)
        self.callbacks.call("on_checkpoint")

    def keep_checkpoint(self) -> None:
        """Keep the checkpoint forever if it is the first regular one since `keep_every` steps."""
        every, folder = self.config.checkpoint.keep_every, self.recorder.run.folder
        if every and (self.finished or self.due(self.config.checkpoint.every)):
            last = max((step for step in kept_runs(folder) if step < self.step), default=0)
            if last // every < self.step // every:
                keep_checkpoint(folder, self.step)

    def restore(self) -> list[str]:
        """Continue from the newest checkpoint; returns remarks for the user."""
        return restore_training(self)


def allow_gradients(env_id: str) -> None:
    """Turn gradients on again if an environment has turned them off."""
    if torch.is_inference_mode_enabled():
        raise RunStopped(f"{env_id} left PyTorch's inference mode on, in which nothing can learn")
    if not torch.is_grad_enabled():
        torch.set_grad_enabled(True)
