// SPDX-License-Identifier: Apache-2.0
// weft train: steps on data from disk, on one rank or several.
#include "train/train.h"

#include "base/error.h"
#include "base/text.h"
#include "capture/optimizer.h"
#include "checkpoint/checkpoint.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/load_model.h"
#include "cli/lowering.h"
#include "cli/measured_cluster.h"
#include "cli/temporary_folder.h"
#include "cli/terminal.h"
#include "execute/launch.h"
#include "plan/forward_plan.h"
#include "plan/parallel.h"
#include "profile/text_table.h"
#include "search/nearest.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <unistd.h>

namespace weft {
namespace {

struct TrainFlags {
  ModelFlags model;
  TrainOptions options;
  std::string precision = "f32";
  PlanFlags plan;
  // 0: as many as the plan is for.
  int64_t nproc = 0;
  bool pin = false;
  bool keep_last = false;
  bool local_batch_norm = false;
  bool in_order = false;
  std::string schedule = "constant";
  std::string bad_loss = "stop";
  std::string data_kind = "auto";
  std::string optimizer;
  std::optional<double> learning_rate;
  std::vector<std::string> optimizer_settings;
  double loss_scale = 0;
  // Where the process that starts the ranks has put the graphs.
  std::string graphs;
};

DatasetKind data_kind_of(const std::string& word) {
  return word == "text"     ? DatasetKind::Text
         : word == "tokens" ? DatasetKind::Tokens
         : word == "arrays" ? DatasetKind::Arrays
                            : DatasetKind::Auto;
}

// For a model that came without one: every parameter in one group.
void give_optimizer(Graph& graph, const TrainFlags& flags) {
  Function& step = *find_function(graph, "step");
  const bool has_one =
      std::any_of(step.nodes.begin(), step.nodes.end(), [](const Node& node) {
        return node.phase == Phase::Optimizer;
      });
  if (has_one) {
    WEFT_CHECK_USER(
        flags.optimizer.empty(),
        flags.model.model,
        " has its own optimizer: leave out --optimizer");
    return;
  }
  WEFT_CHECK_USER(
      !flags.optimizer.empty() && flags.learning_rate,
      flags.model.model,
      " has no optimizer: give one, as in --optimizer adamw --learning-rate "
      "1e-3");
  OptimizerDescription description;
  description.kind = flags.optimizer;
  OptimizerGroup group;
  group.options["lr"] = *flags.learning_rate;
  for (const std::string& setting : flags.optimizer_settings) {
    const size_t equals = setting.find('=');
    WEFT_CHECK_USER(
        equals != std::string::npos,
        "--optimizer-set takes key=number, found: ",
        setting);
    group.options[setting.substr(0, equals)] =
        std::stod(setting.substr(equals + 1));
  }
  for (const Input& input : step.inputs) {
    if (input.kind == InputKind::Parameter && input.trained) {
      group.parameters.push_back(input.keys.front());
    }
  }
  description.groups = {std::move(group)};
  add_optimizer(step, description);
  renumber(step);
  add_learning_rates(graph, description);
}

Graph capture(const TrainFlags& flags, const BatchTypes* types, StepKind kind) {
  ModelOptions options = model_options(flags.model);
  options.precision = flags.precision;
  options.evaluation = kind == StepKind::Evaluate;
  if (types != nullptr) {
    for (const BatchType& each : *types) {
      options.batch_types.emplace_back(each.key, print(each.type));
    }
  }
  Graph graph = load_model(flags.model.model, options).graph;
  if (kind == StepKind::Train) {
    give_optimizer(graph, flags);
  }
  return graph;
}

std::string graph_path(const std::string& folder, StepKind kind) {
  return cat(
      folder, kind == StepKind::Train ? "/train.graph" : "/evaluate.graph");
}

// What the launching process captured, and anything else by itself.
GraphSource graph_source(const TrainFlags& flags, const Graph& usual) {
  return [&flags, &usual](const BatchTypes& types, StepKind kind) {
    if (kind == StepKind::Train && batch_types(usual) == types) {
      return usual;
    }
    const std::string path = graph_path(flags.graphs, kind);
    if (!flags.graphs.empty() && std::filesystem::exists(path)) {
      Graph graph = parse_graph(read_file(path), path);
      if (batch_types(graph) == types) {
        return graph;
      }
    }
    return capture(flags, &types, kind);
  };
}

void print_summary(const TrainFlags& flags, const TrainSummary& summary) {
  const auto steps = static_cast<int64_t>(summary.losses.size());
  if (steps > 0) {
    std::cout << "steps " << summary.first_step + 1 << " to "
              << summary.first_step + steps << ": loss "
              << print_double(summary.losses.front()) << " to "
              << print_double(summary.losses.back()) << "\n";
  } else {
    std::cout << "nothing to do: step " << summary.first_step << " of "
              << flags.options.steps << " is done\n";
  }
  if (summary.evaluation_loss) {
    std::cout << "evaluation loss " << print_double(*summary.evaluation_loss)
              << "\n";
  }
  if (!summary.checkpoint.empty()) {
    std::cout << "checkpoint " << summary.checkpoint << "\n";
  }
  if (!summary.model.empty()) {
    std::cout << "model " << summary.model << "\n";
  }
  if (!summary.stopped_by.empty()) {
    std::cout << "stopped by " << summary.stopped_by
              << (summary.checkpoint.empty() ? "; nothing was saved: give an "
                                               "--output"
                                             : "; go on with --resume")
              << "\n";
  }
}

// How messages call the ranks; empty: by their numbers. A plan for another
// number of them is told of later.
std::vector<std::string> rank_names_of(const TrainFlags& flags, int64_t ranks) {
  return flags.plan.is_given() && rank_count(flags.plan) == ranks
             ? rank_names(flags.plan)
             : std::vector<std::string>();
}

void train_rank(const TrainFlags& flags, Rendezvous rendezvous) {
  TrainOptions options = flags.options;
  options.trainer.rank = rendezvous.rank;
  options.trainer.ranks = rendezvous.size;
  std::unique_ptr<World> world;
  if (rendezvous.size > 1) {
    rendezvous.rank_names = rank_names_of(flags, rendezvous.size);
    world = connect(rendezvous);
  }
  const std::string saved = graph_path(flags.graphs, StepKind::Train);
  const Graph graph = flags.graphs.empty()
                          ? capture(flags, nullptr, StepKind::Train)
                          : parse_graph(read_file(saved), saved);
  if (flags.learning_rate && flags.optimizer.empty()) {
    options.learning_rates.assign(
        learning_rates_of(graph).size(), *flags.learning_rate);
  }
  const PlanSource plans = [&](const Graph& one) {
    Plan plan = flags.plan.is_given()
                    ? forward_plan(load_plan(flags.plan, one), one)
                    : expand({.data = rendezvous.size}, one);
    verify_ranks(plan, rendezvous.size);
    plan.local_batch_norm = plan.local_batch_norm || flags.local_batch_norm;
    return plan;
  };
  const TrainSummary summary =
      train(graph, graph_source(flags, graph), plans, options, world.get());
  if (rendezvous.rank == 0) {
    print_summary(flags, summary);
  }
  if (!summary.stopped_by.empty()) {
    throw CLI::RuntimeError(
        128 + (summary.stopped_by == "SIGINT" ? SIGINT : SIGTERM));
  }
}

// A curve ends with the training unless it says where.
std::string whole_schedule(const TrainFlags& flags) {
  const bool has_end = flags.schedule.starts_with("constant") ||
                       flags.schedule.find("steps=") != std::string::npos;
  return has_end ? flags.schedule
                 : cat(flags.schedule, " steps=", flags.options.steps);
}

// Ranks mostly fail alike, or because another one did: the first speaks.
bool is_first_to_fail(const TrainFlags& flags) {
  if (flags.graphs.empty()) {
    return true;
  }
  const std::string mark = cat(flags.graphs, "/failed");
  const int file = ::open(mark.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) {
    ::close(file);
  }
  return file >= 0 || errno != EEXIST;
}

void train_one_of_many(const TrainFlags& flags, const Rendezvous& rendezvous) {
  try {
    train_rank(flags, rendezvous);
  } catch (const UserError&) {
    if (is_first_to_fail(flags)) {
      throw;
    }
    throw CLI::RuntimeError(kUserErrorStatus);
  }
}

// How long a plan is looked for, at the most.
constexpr double kSearchSeconds = 20;

SearchOptions search_options(const TrainFlags& flags) {
  SearchOptions options;
  options.time_limit_seconds = kSearchSeconds;
  if (flags.options.trainer.budget_bytes > 0) {
    options.max_bytes = flags.options.trainer.budget_bytes;
  }
  // The last of them may be shorter than the batch that is planned for.
  if (flags.options.evaluate_every > 0 || flags.keep_last) {
    forbid_word(options.limits, "micro-batches");
    forbid_word(options.limits, "pipeline");
  }
  return options;
}

// Of --output: the plan that was found, with which a resumed run goes on.
constexpr std::string_view kFoundPlan = "found.plan";

// Machines may have been measured again since, and another plan rounds
// otherwise. None where it was for other ranks or another step.
std::optional<Plan> plan_found_before(
    const TrainFlags& flags, const Graph& graph) {
  const std::filesystem::path path =
      std::filesystem::path(flags.options.output) / kFoundPlan;
  if (!flags.options.resume || !std::filesystem::exists(path)) {
    return std::nullopt;
  }
  try {
    Plan plan = parse_plan(read_file(path.string()), path.string());
    verify(plan, graph);
    return rank_count(plan) == flags.nproc ? std::optional(plan) : std::nullopt;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Not where ranks are about to refuse the folder.
void keep_found_plan(const TrainFlags& flags, const Plan& plan) {
  const std::filesystem::path folder = flags.options.output;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!folder.empty() && !error &&
      (flags.options.resume || !find_last(folder.string()).path)) {
    write_file((folder / kFoundPlan).string(), print(plan));
  }
}

// Where nobody said how ranks share the step: what is fastest by what was
// measured of this machine.
Plan searched_plan(const TrainFlags& flags, const Graph& graph) {
  // The search thinks of equal parts alone.
  if (batch_rows(graph) % flags.nproc != 0) {
    return expand({.data = flags.nproc}, graph);
  }
  const bool is_quiet = flags.options.is_quiet;
  const Cluster cluster =
      measured_cluster(flags.nproc, flags.options.threads, is_quiet);
  SearchOptions options = search_options(flags);
  std::optional<ProgressLine> line;
  if (!is_quiet) {
    line.emplace("looking for a plan");
    options.progress = [&](const std::string& text) { line->say(text); };
  }
  const SearchResult result =
      find_plan(planned_step(graph, flags.options.trainer), cluster, options);
  line.reset();
  if (!is_quiet) {
    const Tried& best = result.tried.front();
    std::cerr << cat(
        "weft: plan ",
        print(best.candidate),
        ", which should take ",
        decimals(1e3 * best.seconds(), 1),
        " ms a step and ",
        bytes_text(best.bytes()),
        " a rank; --parallel or --plan would say it otherwise\n");
  }
  return *result.plan;
}

// Captures once for all ranks, and finds them a plan if they have none.
void start_train(TrainFlags& flags) {
  const TemporaryFolder folder;
  const Graph graph = capture(flags, nullptr, StepKind::Train);
  write_file(folder.file("train.graph"), print(graph));
  if (flags.options.evaluate_every > 0) {
    write_file(
        folder.file("evaluate.graph"),
        print(capture(flags, nullptr, StepKind::Evaluate)));
  }
  std::vector<std::string> arguments = command_line();
  arguments.insert(arguments.end(), {"--graphs", folder.path()});
  if (!flags.plan.is_given()) {
    const std::optional<Plan> before = plan_found_before(flags, graph);
    const Plan plan = before ? *before : searched_plan(flags, graph);
    keep_found_plan(flags, plan);
    flags.plan.plan = folder.file("train.plan");
    write_file(flags.plan.plan, print(plan));
    arguments.insert(arguments.end(), {"--plan", flags.plan.plan});
  }
  const int status = start_ranks(
      flags.nproc,
      arguments,
      {.pin = flags.pin, .rank_names = rank_names_of(flags, flags.nproc)});
  if (status != 0) {
    throw CLI::RuntimeError(status);
  }
}

void run_train(TrainFlags& flags) {
  flags.options.shuffle = !flags.in_order;
  flags.options.drop_last = !flags.keep_last;
  flags.options.schedule =
      parse_rate_schedule(whole_schedule(flags), "--schedule");
  flags.options.trainer.bad_loss = parse_bad_loss(flags.bad_loss);
  flags.options.dataset.kind = data_kind_of(flags.data_kind);
  if (flags.precision == "f16-mixed" || flags.loss_scale > 0) {
    flags.options.loss_scale.emplace();
    if (flags.loss_scale > 0) {
      flags.options.loss_scale->initial = flags.loss_scale;
    }
    flags.options.trainer.scale_loss = true;
  }
  // Read here too, so that a mistake is told before anything starts.
  const int64_t needed = flags.plan.is_given() ? rank_count(flags.plan) : 1;
  flags.nproc = flags.nproc == 0 ? needed : flags.nproc;
  if (const auto rendezvous = rendezvous_from_environment()) {
    train_one_of_many(flags, *rendezvous);
  } else if (flags.nproc == 1) {
    train_rank(flags, {});
  } else {
    start_train(flags);
  }
}

// The checks of CLI11 print a range up to the largest number there is.
CLI::Validator check_number(
    bool (*fits)(double), const std::string& must, const std::string& name) {
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        const bool is_number = CLI::detail::lexical_cast(text, value);
        return is_number && fits(value)
                   ? std::string()
                   : cat("must be ", must, ", found: ", text);
      },
      name);
}

CLI::Validator positive() {
  return check_number(
      [](double value) { return value > 0; }, "a number above 0", "POSITIVE");
}

CLI::Validator not_negative() {
  return check_number(
      [](double value) { return value >= 0; },
      "0 or a number above it",
      "NONNEGATIVE");
}

void add_data_flags(CLI::App& command, TrainFlags& flags) {
  constexpr const char* kGroup = "Data";
  TrainOptions& options = flags.options;
  command
      .add_option(
          "--data",
          options.data,
          "Folders or files: text, tokens (.bin), arrays (.npy, .safetensors)")
      ->required()
      ->type_name("PATH")
      ->group(kGroup);
  command
      .add_option("--data-kind", flags.data_kind, "When the names do not say")
      ->check(CLI::IsMember({"auto", "text", "tokens", "arrays"}))
      ->group(kGroup);
  command
      .add_option(
          "--tokenizer",
          options.dataset.tokenizer,
          "A tokenizer.json for text; without one, bytes are tokens")
      ->type_name("FILE")
      ->group(kGroup);
  command
      .add_option(
          "--extension",
          options.dataset.extensions,
          "Only text files that end so, as in .py; repeat")
      ->expected(1)
      ->take_all()
      ->type_name("END")
      ->group(kGroup);
  command
      .add_option(
          "--token-bytes",
          options.dataset.token_bytes,
          "Bytes of a token in .bin files: 2 or 4")
      ->check(CLI::IsMember({2, 4}))
      ->group(kGroup);
  command
      .add_option(
          "--field",
          options.fields,
          "KEY=FIELD: which field of the data is which input; repeat")
      ->expected(1)
      ->take_all()
      ->type_name("KEY=FIELD")
      ->group(kGroup);
  command.add_flag("--in-order", flags.in_order, "Do not shuffle")
      ->group(kGroup);
  command
      .add_flag(
          "--keep-last",
          flags.keep_last,
          "Train on the shorter last batch of an epoch too")
      ->group(kGroup);
}

void add_step_flags(CLI::App& command, TrainFlags& flags) {
  constexpr const char* kGroup = "Steps";
  TrainOptions& options = flags.options;
  command.add_option("--steps", options.steps, "Train up to this step")
      ->required()
      ->check(positive())
      ->type_name("N")
      ->group(kGroup);
  command
      .add_option(
          "--learning-rate",
          flags.learning_rate,
          "In place of the optimizer's own")
      ->type_name("RATE")
      ->group(kGroup);
  command
      .add_option(
          "--schedule",
          flags.schedule,
          "'constant', 'linear warmup=100', 'cosine warmup=100 floor=0.1'")
      ->type_name("TEXT")
      ->group(kGroup);
  command
      .add_option(
          "--optimizer",
          flags.optimizer,
          "For a model without one: sgd, adam, adamw, ...")
      ->type_name("NAME")
      ->group(kGroup);
  command
      .add_option(
          "--optimizer-set",
          flags.optimizer_settings,
          "An option of --optimizer, as in weight_decay=0.1; repeat")
      ->expected(1)
      ->take_all()
      ->type_name("KEY=NUMBER")
      ->group(kGroup);
  command
      .add_option(
          "--clip-norm",
          options.trainer.clip_norm,
          "Scale gradients down to this global norm")
      ->check(not_negative())
      ->type_name("NORM")
      ->group(kGroup);
  command
      .add_option(
          "--accumulate",
          options.trainer.accumulate,
          "Batches whose gradients make one step")
      ->check(positive())
      ->type_name("N")
      ->group(kGroup);
  command
      .add_option(
          "--precision",
          flags.precision,
          "f32, bf16, bf16-mixed or f16-mixed (with loss scaling)")
      ->check(CLI::IsMember({"f32", "bf16", "bf16-mixed", "f16-mixed"}))
      ->group(kGroup);
  command
      .add_option(
          "--loss-scale",
          flags.loss_scale,
          "Scale the loss, starting from this, whatever the precision")
      ->check(positive())
      ->type_name("SCALE")
      ->group(kGroup);
  command
      .add_option(
          "--bad-loss",
          flags.bad_loss,
          "When the loss is not finite: stop, skip (the step) or go-on")
      ->check(CLI::IsMember({"stop", "skip", "go-on"}))
      ->group(kGroup);
  command
      .add_option(
          "--seed",
          options.trainer.seed,
          "What initial values, dropout and the order of data follow from")
      ->group(kGroup);
  command
      .add_option(
          "--evaluate-every",
          options.evaluate_every,
          "Steps between evaluations on held-out samples")
      ->check(not_negative())
      ->type_name("N")
      ->group(kGroup);
  command
      .add_option(
          "--evaluation-batches",
          options.evaluation_batches,
          "How many of them, at most")
      ->check(positive())
      ->type_name("N")
      ->group(kGroup);
  command
      .add_option(
          "--evaluation-fraction",
          options.evaluation_fraction,
          "The share of samples that is held out")
      ->type_name("SHARE")
      ->group(kGroup);
}

void add_output_flags(CLI::App& command, TrainFlags& flags) {
  constexpr const char* kGroup = "Results";
  TrainOptions& options = flags.options;
  command
      .add_option(
          "--output",
          options.output,
          "Where checkpoints, metrics and the model go")
      ->type_name("DIR")
      ->group(kGroup);
  command
      .add_option(
          "--save-every", options.save_every, "Steps between checkpoints")
      ->check(not_negative())
      ->type_name("N")
      ->group(kGroup);
  command.add_option("--keep", options.keep, "Checkpoints that stay; 0: all")
      ->check(not_negative())
      ->type_name("N")
      ->group(kGroup);
  command
      .add_flag(
          "--resume",
          options.resume,
          "Go on from the last whole checkpoint in --output")
      ->group(kGroup);
  command
      .add_option(
          "--load",
          options.load,
          "Parameters to start from: .safetensors, a Hugging Face folder or a "
          "checkpoint")
      ->type_name("PATH")
      ->group(kGroup);
  command.add_flag("--quiet", options.is_quiet, "Show no progress")
      ->group(kGroup);
}

void add_rank_flags(CLI::App& command, TrainFlags& flags) {
  constexpr const char* kGroup = "Ranks";
  TrainOptions& options = flags.options;
  command
      .add_option(
          "--nproc",
          flags.nproc,
          "Ranks to start here, if not as many as the plan is for; torchrun "
          "may start them too")
      ->check(positive())
      ->type_name("N")
      ->group(kGroup);
  add_plan_flags(
      command,
      flags.plan,
      "the plan that is fastest by what was measured of this machine, or for "
      "ranks of torchrun parts of the batch");
  command.get_option("--plan")->group(kGroup);
  command.get_option("--parallel")->group(kGroup);
  command
      .add_flag(
          "--local-batch-norm",
          flags.local_batch_norm,
          "Batch norms by each rank's own part of the batch: another result")
      ->group(kGroup);
  command
      .add_option("--threads", options.threads, "Threads inside one operator")
      ->check(positive())
      ->type_name("N")
      ->group(kGroup);
  command.add_flag("--pin", flags.pin, "Keep each rank on a core of its own")
      ->group(kGroup);
  command
      .add_option(
          "--budget-bytes",
          options.trainer.budget_bytes,
          "The most memory that a rank may use")
      ->check(not_negative())
      ->type_name("N")
      ->group(kGroup);
  command
      .add_option(
          "--dump-dir",
          options.trainer.lowering.dump_dir,
          "Write the text after each pass of lowering into this folder")
      ->type_name("DIR")
      ->group(kGroup);
  command.add_option("--graphs", flags.graphs)->group("");
}

}  // namespace

void add_train_command(CLI::App& app) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App* command =
      app.add_subcommand("train", "Train a model on data from disk");
  command->group(kStepGroup);
  add_model_flags(*command, flags->model);
  command->get_option("MODEL")->required();
  add_batch_size_flag(*command, flags->model);
  add_data_flags(*command, *flags);
  add_step_flags(*command, *flags);
  add_output_flags(*command, *flags);
  add_rank_flags(*command, *flags);
  command->footer(
      R"(SIGTERM and Ctrl-C save and leave; a second Ctrl-C leaves at once.

Examples:
  weft train gpt.py:gpt2_small --data corpus/ --steps 200 --nproc 2 --output run
  weft train gpt.py:gpt2_small --data corpus/ --steps 400 --nproc 4 --output run --resume
  weft train gpt.py:gpt2_small --data corpus/ --steps 200 --parallel data=2,zero=1
  torchrun --nproc-per-node 2 --no-python weft train gpt.py:gpt2_small --data tokens.bin --steps 200)");
  command->callback([flags] { run_train(*flags); });
}

}  // namespace weft
