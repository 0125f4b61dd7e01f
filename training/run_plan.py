"""When a run ends, cools down, evaluates and saves: planned in its text."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol

from data_utils.lanes import TextClock
from mlstm_sentiment.bounds import Bound

Characters = Annotated[float, Bound(min=1, max=1e18)]


class _Section(Protocol):
    """A section of a config with an interval, in steps or in characters."""

    DEFAULT_STEPS: ClassVar[int]

    @property
    def every_steps(self) -> int | None: ...
    @property
    def every_characters(self) -> float | None: ...


@dataclass(frozen=True)
class RunPlan:
    """The length of a run, and the steps after which it evaluates and saves.

        plan = config.plan(TextClock(lanes.windows))
        plan.clock.epochs(plan.last_step)  # how often the run reads its text

    Training, console, resume and planner ask this class alone. Warm-up, hold and cooldown are
    fractions of `steps`.
    """

    clock: TextClock
    steps: int
    cooldown: range | None  # its steps
    evaluate: _Section
    checkpoint: _Section

    @property
    def last_step(self) -> int:
        """The step at which the run ends: after its cooldown, if it has one."""
        return self.steps if self.cooldown is None else self.cooldown.stop

    def is_due(self, section: _Section, step: int) -> bool:
        """Return whether an interval of a section ends with a step, or the run does."""
        ended = self._intervals(section, step) > self._intervals(section, step - 1)
        return ended or step == self.last_step

    def has_saved(self, step: int) -> bool:
        """Return whether a run that reached a step has a whole checkpoint.

        The first one is written in the background; the second one waits for it.
        """
        ended = step >= self.last_step > 0
        return ended or self._intervals(self.checkpoint, step - 1) > 1

    def count(self, section: _Section) -> int:
        """Return how often something is due in the whole run."""
        return min(self._intervals(section, self.last_step - 1) + 1, self.last_step)

    def _intervals(self, section: _Section, step: int) -> int:
        if section.every_characters is None:
            return step // (section.every_steps or section.DEFAULT_STEPS)
        return int(self.clock.characters(step) / section.every_characters)
