"""Pretrain a byte-level multiplicative LSTM on reviews.

python main.py                                   # the tour: embedded corpus, a minute
python main.py --config configs/cpu_1024.toml --data.corpus data/amazon
python -m torch.distributed.run --nproc-per-node 8 main.py --config configs/paper_4096.toml
python main.py --resume runs/tour
"""

from configs import report_import_errors

report_import_errors()

from configs import command
from configs.options import RunOptions
from configs.run import ResolvedRun, resolve_run
from data_utils.lanes import TextClock, lanes_of
from mlstm_sentiment.errors import NOTHING_WORTH_KEEPING
from training.evaluation import BestModelWriter
from training.monitor import MetricRows, Monitor
from training.parallel.batch import Prefetcher
from training.parallel.distributed import (
    AsyncFlags,
    check_same_weights,
    launched,
    report_implementations,
)
from training.parallel.launcher import end_launcher
from training.run_log import RunLog, announce, print_main
from training.runs.signals import StopRequest
from training.throughput import ThroughputMeter, utilization_of


def main() -> int:
    """Parse, launch, pretrain."""
    options = RunOptions.from_command_line(doc=__doc__)
    train = options.run.train
    with launched(train.device, train.timeout_seconds) as world, resolve_run(options, world) as run:
        code = pretrain(run)
        if code == NOTHING_WORTH_KEEPING:
            end_launcher(code)
        return code


def pretrain(run: ResolvedRun) -> int:
    """Train from step 0, or from the restored checkpoint, to the end; return the exit code."""
    config, world, corpus, checkpoints = run.config, run.world, run.corpus, run.checkpoints
    own = world.own_slice(run.lanes)
    lanes = lanes_of(corpus.splits["train"], config.data, run.lanes, config.seed, own)
    windows_per_step = config.parallel.windows_per_step
    clock = TextClock(lanes.windows, windows_per_step, corpus.train_characters)
    plan = run.plan(clock)
    trainer = run.make_trainer(plan)
    best_model = BestModelWriter(trainer, run.directory, corpus, config.evaluate.lanes)
    if run.resumed:
        checkpoints.restore(trainer)
    if run.start is not None:
        trainer.progress.began_from = run.start.load_into(trainer.model)
    report_implementations(world, trainer.model)
    check_same_weights(world, trainer.model)
    monitor = Monitor(config.evaluate, corpus, world)
    run.begin()
    best_model.forget_lost_model()
    announce(trainer, corpus, run.directory.folder, plan)

    steps = plan.last_step
    span = trainer.window, steps * windows_per_step
    with (
        best_model.advising_restart(checkpoints),
        StopRequest() as stop,
        checkpoints,
        AsyncFlags(world) as flags,
        Prefetcher(lanes, world.device, *span) as prefetcher,
        RunLog(run.directory, trainer.progress, steps, world) as log,
    ):
        utilization = utilization_of(trainer, corpus.characters_per_token)
        meter = ThroughputMeter(trainer, prefetcher, utilization)
        rows = MetricRows(
            best_model,
            plan,
            config.log.every_steps,
            monitor=monitor,
            log=log,
            meter=meter,
            is_time_up=lambda: stop.requested,
        )
        if not rows.complete():
            return stop.exit_code
        while trainer.progress.step < steps:
            batches = [prefetcher.next() for _ in range(windows_per_step)]
            trainer.train(*batches)
            checkpoints.check()
            meter.advance(sum(batch.characters for batch in batches))

            # Several ranks get the previous step's flags here, so all stop at the same step.
            stopping, line_due = flags.reduce(stop.requested, log.advance())
            if rows.is_due:
                stopping = not rows.write(trainer.close_row()) or stopping
            elif line_due:
                rows.print_line()
            step = trainer.progress.step
            if stopping or plan.is_due(plan.checkpoint, step):
                with meter.paused():
                    checkpoints.save(
                        trainer,
                        best_model.profile,
                        best_model.provenance(),
                        at_once=stopping or step == steps,
                    )
                    if trainer.balance(meter.speeds):
                        prefetcher.assign(trainer.own)
            if stopping and (step < steps or trainer.progress.open_row):
                print_main(world, f"stopped and saved at step {step}; continue with --resume")
                return stop.exit_code
    return best_model.finish()


if __name__ == "__main__":
    command.run(main)
