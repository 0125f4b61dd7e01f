"""Make the tables of README.md and docs/speed.md."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from statistics import median
from typing import Any

from experiments.results import read_result
from experiments.speed.run import measurements
from experiments.tables import markdown, origins

RATIOS = {
    "to_gemm_floor": "products alone",
    "to_gemm_floor_table": "needed products alone",
    "to_library_floor": "libraries' products alone",
    "to_loop_2018": "loop of 2018",
    "to_reference": "reference",
    "to_nn_lstm_flop_adjusted": "nn.LSTM, equal operations",
    "to_compile": "compile",
    "from_inputs_to_gemm_floor": "a deeper layer, to products alone",
    "from_inputs_to_library_floor": "a deeper layer, to the libraries' products alone",
    "to_achievable": "of what is achievable",
    "from_inputs_to_achievable": "the same, a deeper layer",
}
WITH_LIBRARIES = (
    *("to_gemm_floor", "to_gemm_floor_table", "to_library_floor"),
    *("to_nn_lstm_flop_adjusted", "from_inputs_to_gemm_floor"),
)
OF_TRAINING = ("to_gemm_floor", "to_gemm_floor_table", "to_loop_2018", "to_reference")
CONTENDERS = {
    "fused": "ours",
    "fused_from_inputs": "ours, inputs of a deeper layer",
    "nn_lstm": "torch.nn.LSTM, for equal operations",
    "reference": "reference loop",
    "loop_2018": "loop of 2018",
}
FEWER_PRODUCTS = 4 / 5  # nn.LSTM's, relative to ours
SIZES = {512: "512 units", 1024: "1,024 units"}
DTYPES = ("fp32", "bf16")
WORKS = ("train", "classify", "featurize")


def training() -> str:
    """Return how fast the recurrence is in training, relative to its peers."""
    ratios = (*OF_TRAINING, "to_nn_lstm_flop_adjusted", "to_compile")
    return recurrence("training", {f"training_{name}": title for name, title in sizes()}, ratios)


def forward() -> str:
    """Return how fast the recurrence is without a backward pass, relative to its peers."""
    ratios = ("to_gemm_floor", "to_gemm_floor_table", "to_nn_lstm_flop_adjusted")
    files = {f"inference_{name}": title for name, title in sizes()}
    return recurrence("forward only", files, ratios)


def with_amx() -> str:
    """Return how fast the recurrence is on a processor with Intel AMX, relative to its peers."""
    files = {
        f"amx_{kind}_{units}": f"{words}, {title}"
        for kind, words in (("training", "training"), ("inference", "forward only"))
        for units, title in SIZES.items()
    }
    return recurrence("bf16", files, (*WITH_LIBRARIES, "from_inputs_to_library_floor"))


def unit() -> str:
    """Return our speed relative to what the AMX unit can do, and the unit's speed by product."""
    results = {f"amx_unit_{units}": read_result("speed", f"amx_unit_{units}") for units in SIZES}
    keys = ("to_achievable", "from_inputs_to_achievable")
    peers = {"to_library_floor": "libraries' products"}
    peers |= {"to_nn_lstm_flop_adjusted": RATIOS["to_nn_lstm_flop_adjusted"]}
    head = ["bf16, one core", *(RATIOS[key] for key in keys), *peers.values()]
    rows = [
        [f"training, {title}", *(ratio(result, key) for key in (*keys, *peers))]
        for title, result in zip(SIZES.values(), results.values(), strict=True)
    ]
    products = ("h W_mh", "m W_h", "dz W_h", "dW_h")
    speeds = [
        [
            title,
            *(f"{result['unit_gigaflops'][name]:,.0f}" for name in ("registers", *products)),
            f"{result['packing_milliseconds']:.0f}",
        ]
        for title, result in zip(SIZES.values(), results.values(), strict=True)
    ]
    heads = ["GFLOP of the AMX unit in a CPU second", "registers alone"]
    heads += [*(f"`{name}`" for name in products), "packing, milliseconds a window"]
    processor = results["amx_unit_512"]["origin"]["hardware"]["processor"]
    tables = f"{markdown(head, rows)}\n\n{markdown(heads, speeds)}"
    return f"{tables}\n\nOn {processor}. {origins(results)}"


def vectors() -> str:
    """Return our speed without AMX relative to what AVX-512 can do, and what that is."""
    names = [f"vectors_{dtype}_{units}" for dtype in ("bf16", "fp32") for units in SIZES]
    results = {name: read_result("speed", name) for name in names}
    keys = ("to_achievable", "from_inputs_to_achievable", "to_library_floor")
    rows = []
    for result in results.values():
        options, rates = result["options"], result["unit_gigaflops"]
        speeds = [f"{rates[name]:,.0f}" for name in ("registers", "h W_mh", "m W_h", "dW_h")]
        title = f"{options['dtype']}, {SIZES[options['hidden_size']]}"
        rows.append([title, *(ratio(result, key) for key in keys), *speeds])
    head = ["training, one core", RATIOS[keys[0]], RATIOS[keys[1]], "libraries' products"]
    head += ["GFLOP in a CPU second, registers alone", "`h W_mh`", "`m W_h`", "`dW_h`"]
    processor = results[names[0]]["origin"]["hardware"]["processor"]
    return f"{markdown(head, rows)}\n\nOn {processor}, AMX unused. {origins(results)}"


def engine() -> str:
    """Return the CPU seconds of the inference engine and of PyTorch."""
    result = read_result("speed", "engine")
    timed = result["seconds_per_1000"]
    names = {"test": "SST", "imdb_test": "IMDB"}
    columns = [(name, bits) for name in names for bits in ("", ", bits")]
    rows = []
    for label in [label for label in timed["test"] if not label.endswith("bits")]:
        cells = [f"{timed[name][label + bits]['median']:.2f}" for name, bits in columns]
        rows.append([f"`{label}`", *cells])
    heads = ["CPU s for 1,000 texts"]
    heads += [f"{names[name]}{bits.replace('bits', 'with bits')}" for name, bits in columns]
    agreement = [result["agreement"][name]["exact"] for name in names]
    differ = sum(each["labels_or_flags_changed_far_from_thresholds"] for each in agreement)
    texts = sum(each["texts"] for each in agreement)
    peak = ", ".join(f"{path} {part:.0%}" for path, part in result["of_peak"]["imdb_test"].items())
    first = median(each["cpu_seconds"] for each in result["first_answer"])
    memory = median(each["peak_mib"] for each in result["first_answer"])
    processor = result["origin"]["hardware"]["processor"]
    short = result["short_text_ms"]["engine"]
    return "\n\n".join([
        markdown(heads, rows),
        f"`{result['options']['model']}`, from tokens to features, one core of {processor}; "
        f"medians of {result['options']['rounds']} rounds in which all alternate. "
        f"Of the measured peak of a path's instructions, IMDB: {peak}. In Python, the first "
        f"answer takes {first:.2f} CPU s and {memory:.0f} MiB, one short text with everything "
        f"loaded {short:.1f} ms. Of {texts:,} texts of SST and IMDB, {differ} have another label "
        "or flag than with PyTorch in fp32, farther than 0.001 from a threshold. "
        f"{origins({'engine': result})}",
    ])  # fmt: skip


def measured(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Say on which machine, at which revisions and when results were measured."""
    machines = set()
    for result in results.values():
        hardware = result["origin"]["hardware"]
        processor = ", ".join([hardware["processor"], *hardware["bf16_instructions"]])
        machines.add(", ".join(hardware["gpus"]) or f"{hardware['cores']} cores of {processor}")
    return f"On {'; '.join(sorted(machines))}. {origins(results)}"


def on_a_gpu() -> str:
    """Return how fast the recurrence is in training on a GPU, relative to its peers."""
    files = {f"gpu_recurrence_{units}": f"training, {units:,} units" for units in (4096, 1024)}
    return recurrence("bf16, 256 lanes of 256 bytes", files, WITH_LIBRARIES)


def first_page() -> str:
    """Return the speeds on the page of docs/, without ranges."""
    ratios = ("to_loop_2018", "to_nn_lstm_flop_adjusted", "to_compile")
    files = {
        "training_fp32_512": "training, fp32, 512 units",
        "training_fp32_1024": "training, fp32, 1,024 units",
        "training_bf16_1024": "training, bf16, 1,024 units",
        "inference_fp32_512": "forward only, fp32, 512 units",
    }
    results = {name: read_result("speed", name) for name in files}
    rows = [
        [files[name], speed(result, "fused"), *(without_range(result, key) for key in ratios)]
        for name, result in results.items()
    ]
    table = markdown(["", "characters/s", *(RATIOS[key] for key in ratios)], rows)
    step = read_result("speed", "step_fp32_1024")["ratios"]["step_to_recurrence"]
    return (
        f"{table}\n\nA whole training step reaches {step:.2f} of the speed of its recurrence alone "
        f"(1,024 units, fp32). {measured(results)}"
    )


def recurrence(title: str, files: Mapping[str, str], ratios: Sequence[str]) -> str:
    """Return the speeds of the recurrence, and its ratios to others; files: titles by name."""
    results = {name: read_result("speed", name) for name in files}
    rows = [
        [files[name], speed(result, "fused"), *(ratio(result, key) for key in ratios)]
        for name, result in results.items()
    ]
    head = [title, "characters/s", *(RATIOS[key] for key in ratios)]
    return f"{markdown(head, rows)}\n\n{measured(results)}"


def sweep() -> str:
    """Return the speeds of training in fp32 by size, relative to the products alone."""
    results = {name: read_result("speed", name) for name in measurements() if "sweep_" in name}
    several = [*results.values(), *(read_result("speed", f"training_fp32_{H}") for H in SIZES)]
    keys = ("hidden_size", "batch", "window")
    rows = sorted(
        (([each["options"][key] for key in keys], each) for each in several), key=itemgetter(0)
    )
    cells = [
        [
            *map(str, sizes),
            speed(result, "fused"),
            *(of_the_products(result, name) for name in CONTENDERS),
        ]
        for sizes, result in rows
    ]
    head = ["H", "B", "T", "ours, characters/s", *CONTENDERS.values()]
    return f"{markdown(head, cells)}\n\n{measured(results)}"


def of_the_products(result: Mapping[str, Any], name: str) -> str:
    """Return a contender's speed as a fraction of that of the products alone; median of rounds."""
    if name not in result["seconds"]:
        return "-"
    rounds = zip(result["seconds"]["gemm_floor"], result["seconds"][name], strict=True)
    fraction = median(products / own for products, own in rounds)
    return f"{fraction * (FEWER_PRODUCTS if name == 'nn_lstm' else 1):.2f}"


def steps() -> str:
    """Return the speed of a whole training step, and relative to its recurrence alone."""
    results = {f"step_{dtype}_1024": read_result("speed", f"step_{dtype}_1024") for dtype in DTYPES}
    rows = [
        [
            f"{result['options']['dtype']}, {result['options']['hidden_size']:,} units",
            speed(result, "step"),
            ratio(result, "step_to_recurrence"),
        ]
        for result in results.values()
    ]
    head = ["a whole training step", "characters/s", "speed relative to its recurrence alone"]
    return f"{markdown(head, rows)}\n\n{measured(results)}"


def from_inputs() -> str:
    """Return the speed of a deeper layer, and the memory that autograd keeps."""
    rows = []
    for name, title in sizes():
        result = read_result("speed", f"training_{name}")
        saved = f"{result['saved_over_least']:.2f}"
        rows.append([title, ratio(result, "from_inputs_to_gemm_floor"), saved])
    head = ["training", RATIOS["from_inputs_to_gemm_floor"], "saved over least"]
    return markdown(head, rows)


def parts() -> str:
    """Return where the time of a training step goes."""
    files = {f"parts_{dtype}_{units}": f"{dtype}, {units:,}" for units in SIZES for dtype in DTYPES}
    return parts_of("milliseconds of a step, Muon", files)


def parts_with_amx() -> str:
    """Return where the time of a training step goes on a processor with Intel AMX."""
    files = {f"amx_parts_{units}": title for units, title in SIZES.items()}
    return parts_of("milliseconds of a step, Muon, bf16", files)


def parts_of(title: str, files: Mapping[str, str]) -> str:
    """Return the milliseconds of the parts of a step, with a column for each result."""
    results = {name: read_result("speed", name) for name in files}
    times = [result["parts"]["milliseconds"] for result in results.values()]
    rows = [[part, *(f"{each[part]:,.1f}" for each in times)] for part in times[0]]
    rows.append(["characters/s, not profiled", *(speed(r, "step") for r in results.values())])
    return f"{markdown([title, *files.values()], rows)}\n\n{measured(results)}"


def busy(name: str) -> str:
    """Return how fast we work on a loaded machine, with and without what we do about it."""
    result = read_result("speed", name)
    rows = [
        [
            work,
            speed(result, f"{work} alone"),
            speed(result, f"{work}_without alone"),
            ratio(result, work),
            ratio(result, f"{work}_without"),
        ]
        for work in WORKS
    ]
    head = ["work", "alone, characters/s", "without, alone", "of the fair share", "without"]
    return f"{markdown(head, rows)}\n\n{measured({name: result})}"


def gpu() -> str:
    """Return the speed of training on a GPU."""
    step = read_result("speed", "gpu_check")["step_4096"]["result"]
    run = read_result("speed", "gpu_training")
    rows = [
        ["4,096 units, Adam, 256 lanes of 256 bytes: a step", speed(step, "step")],
        ["the same, its recurrence alone", speed(step, "recurrence")],
    ]
    for lanes in run["lanes"]:
        speeds = run["lanes"][lanes]["characters_per_second"]
        title = f"{run['hidden_size']:,} units, Muon, {lanes} lanes of {run['window']} bytes"
        ends = f"{min(speeds):,.0f} to {max(speeds):,.0f}"
        rows.append([f"{title}: main.py", f"{median(speeds):,.0f} ({ends})"])
    table = markdown(["training in bf16", "characters/s"], rows)
    return f"{table}\n\n{origins({'gpu_training': run})}"


def sizes() -> list[tuple[str, str]]:
    """Return the ends of the names of results, with titles: in both precisions, both sizes."""
    return [
        (f"{dtype}_{units}", f"{dtype}, {title}")
        for dtype in DTYPES
        for units, title in SIZES.items()
    ]


def speed(result: Mapping[str, Any], name: str) -> str:
    """Return characters per second."""
    return f"{result['chars_per_second'][name]:,.0f}"


def ratio(result: Mapping[str, Any], key: str) -> str:
    """Return a ratio of speeds with its lowest and highest round; nothing where it is absent."""
    if key not in result["ratios"]:
        return ""
    low, high = result["ratio_ranges"][key]
    return f"{result['ratios'][key]:.2f} ({low:.2f} to {high:.2f})"


def without_range(result: Mapping[str, Any], key: str) -> str:
    """Return a ratio of speeds; nothing where it is absent."""
    return f"{result['ratios'][key]:.2f}" if key in result["ratios"] else ""
