// SPDX-License-Identifier: Apache-2.0
// weft train: steps on data from disk, on one rank or several.
#include "train/train.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "capture/optimizer.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/load_model.h"
#include "cli/lowering.h"
#include "cli/temporary_folder.h"
#include "cli/train_flags.h"
#include "cli/train_plan.h"
#include "cli/train_settings.h"
#include "execute/flight_record.h"
#include "execute/launch.h"
#include "execute/open_files.h"
#include "execute/rank_room.h"
#include "plan/forward_plan.h"
#include "plan/parallel.h"
#include "train/begin_run.h"
#include "train/export_model.h"
#include "train/run_folder.h"
#include "train/run_lock.h"

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
#include <utility>

namespace weft {
namespace {

// The share of samples that is held out where nobody says.
constexpr double kHeldOut = 0.05;

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
    group.options[setting.substr(0, equals)] = expect_number(
        setting.substr(equals + 1),
        cat("--optimizer-set ", setting.substr(0, equals)),
        NumberRange::Any);
  }
  for (const Input& input : step.inputs) {
    if (input.kind == InputKind::Parameter && input.trained) {
      group.parameters.push_back(input.keys.front());
    }
  }
  description.groups = {std::move(group)};
  NameTable names(step);
  add_optimizer(step, names, description);
  renumber(step);
  add_learning_rates(graph, description);
}

LoadedModel load_step(
    const TrainFlags& flags, const BatchTypes* types, StepKind kind) {
  ModelOptions options = model_options(flags.model);
  options.precision = flags.precision;
  options.evaluation = kind == StepKind::Evaluate;
  if (types != nullptr) {
    for (const BatchType& each : *types) {
      options.batch_types.emplace_back(each.key, print(each.type));
    }
  }
  LoadedModel model = load_model(flags.model.model, options);
  if (kind == StepKind::Train) {
    give_optimizer(model.graph, flags);
  }
  return model;
}

Graph capture(const TrainFlags& flags, const BatchTypes* types, StepKind kind) {
  return load_step(flags, types, kind).graph;
}

// The usual step of a run. The first process of the run keeps what belongs to
// its model.
Graph capture_run(const TrainFlags& flags, bool is_first) {
  WEFT_CHECK_USER(
      flags.options.evaluate_every == 0 || is_python_model(flags.model.model),
      flags.model.model,
      " is a training step, and to evaluate is another: --evaluate-every "
      "is for FILE.py:FUNCTION");
  LoadedModel model = load_step(flags, nullptr, StepKind::Train);
  const TrainOptions& options = flags.options;
  // One that goes on has kept it when it began.
  if (is_first && !options.output.empty() &&
      !find_start(options.output, options.resume).checkpoint) {
    keep_description(options.output, model.hugging_face);
    if (!options.dataset.tokenizer.empty()) {
      keep_tokenizer(options.output, options.dataset.tokenizer);
    }
  }
  return std::move(model.graph);
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

// How that many ranks share a step, as was said or else by its batch.
Plan plan_for(const TrainFlags& flags, const Graph& step, int64_t ranks) {
  Plan plan = flags.plan.is_given()
                  ? forward_plan(load_plan(flags.plan, step), step)
                  : expand({.data = ranks}, step);
  verify_ranks(plan, ranks);
  plan.local_batch_norm = plan.local_batch_norm || flags.local_batch_norm;
  return plan;
}

std::string flight_folder_of(const TrainFlags& flags) {
  const std::string& output = flags.options.output;
  return flight_folder(output.empty() ? "" : cat(output, "/flight"));
}

void train_rank_recorded(
    const TrainFlags& flags, Rendezvous rendezvous, FlightRecord* flight) {
  TrainOptions options = flags.options;
  options.trainer.rank = rendezvous.rank;
  options.trainer.ranks = rendezvous.size;
  options.trainer.flight = flight;
  std::unique_ptr<World> world;
  if (rendezvous.size > 1) {
    if (flight != nullptr) {
      flight->mark(FlightPhase::Meeting);
    }
    rendezvous.rank_names = rank_names_of(flags, rendezvous.size);
    world = connect(rendezvous);
  }
  const std::string saved = graph_path(flags.graphs, StepKind::Train);
  const Graph graph = flags.graphs.empty()
                          ? capture_run(flags, rendezvous.rank == 0)
                          : parse_graph(read_file(saved), saved);
  if (flags.learning_rate && flags.optimizer.empty()) {
    options.learning_rates.assign(
        learning_rates_of(graph).size(), *flags.learning_rate);
  }
  const PlanSource plans = [&](const Graph& one) {
    return plan_for(flags, one, rendezvous.size);
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

void train_rank(const TrainFlags& flags, const Rendezvous& rendezvous) {
  const std::unique_ptr<FlightRecord> flight = FlightRecord::open(
      flight_folder_of(flags), rendezvous.rank, rendezvous.size);
  try {
    train_rank_recorded(flags, rendezvous, flight.get());
  } catch (const CLI::Error&) {
    // Told to leave.
    throw;
  } catch (const std::exception& error) {
    if (flight) {
      flight->fail(error.what());
    }
    throw;
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

// Captures once for all ranks, and finds them a plan if they have none.
void start_train(TrainFlags& flags, const RunLock* lock) {
  const TemporaryFolder folder;
  const Graph graph = capture_run(flags, true);
  if (flags.plan.is_given()) {
    const Graph step = planned_step(graph, flags.options.trainer);
    verify(plan_for(flags, step, flags.nproc), step);
  }
  write_file(folder.file("train.graph"), print(graph));
  if (flags.options.evaluate_every > 0) {
    write_file(
        folder.file("evaluate.graph"),
        print(capture(flags, nullptr, StepKind::Evaluate)));
  }
  std::vector<std::string> arguments = command_line();
  arguments.insert(arguments.end(), {"--graphs", folder.path()});
  if (!flags.plan.is_given()) {
    flags.plan.plan = folder.file("train.plan");
    write_file(flags.plan.plan, print(found_plan(flags, graph)));
    arguments.insert(arguments.end(), {"--found-plan", flags.plan.plan});
  }
  if (lock != nullptr) {
    lock->share();
  }
  const int status = start_ranks(
      flags.nproc,
      arguments,
      {.pin = flags.pin,
       .rank_names = rank_names_of(flags, flags.nproc),
       .asked_by = flags.asked_by,
       .oversubscribe = flags.oversubscribe,
       .memory_of = [&](int64_t rank) {
         return planned_memory(flight_folder_of(flags), rank);
       }});
  if (status > 128 && status != 128 + SIGTERM && status != 128 + SIGINT &&
      !flight_folder_of(flags).empty()) {
    std::cerr << cat(
        "weft: what every rank did last: weft explain --fault ",
        flags.options.output.empty() ? flight_folder_of(flags)
                                     : flags.options.output,
        "\n");
  }
  if (status != 0) {
    throw CLI::RuntimeError(status);
  }
}

// From words to what they mean.
void settle(TrainFlags& flags) {
  TrainOptions& options = flags.options;
  options.shuffle = !flags.in_order;
  options.drop_last = !flags.keep_last;
  options.schedule = parse_rate_schedule(whole_schedule(flags), "--schedule");
  flags.schedule = print(options.schedule);
  options.trainer.bad_loss = parse_bad_loss(flags.bad_loss);
  options.dataset.kind = data_kind_of(flags.data_kind);
  options.evaluation_fraction = flags.evaluation_fraction.value_or(
      options.evaluate_every > 0 ? kHeldOut : 0);
  flags.evaluation_fraction = options.evaluation_fraction;
  if (flags.precision == "f16-mixed" || flags.loss_scale > 0) {
    options.loss_scale.emplace();
    if (flags.loss_scale > 0) {
      options.loss_scale->initial = flags.loss_scale;
    }
    options.trainer.scale_loss = true;
  }
}

// Before anything is captured: the folder, for this run alone, and whether it
// may go on there.
std::unique_ptr<RunLock> take_folder(const TrainFlags& flags, bool is_first) {
  const TrainOptions& options = flags.options;
  if (options.output.empty()) {
    return nullptr;
  }
  std::unique_ptr<RunLock> lock;
  if (is_first) {
    make_run_folder(options.output, options.data);
    lock = std::make_unique<RunLock>(options.output);
    if (!lock->left_behind().empty()) {
      std::cerr << cat(
          "weft: the run in ",
          options.output,
          " before this one did not end by itself: ",
          lock->left_behind(),
          "\n");
    }
  }
  const RunStart start = find_start(options.output, options.resume);
  if (start.checkpoint) {
    refuse_changes(options, *start.checkpoint);
  }
  return lock;
}

void run_train(const CLI::App& command, TrainFlags& flags) {
  need_open_files(open_files_of_run(1));
  inherit_settings(command, flags);
  settle(flags);
  const std::optional<Rendezvous> rendezvous = rendezvous_from_environment();
  if (rendezvous && flags.options.before && command.count("--plan") == 0 &&
      command.count("--parallel") == 0 && flags.plan.is_given() &&
      rank_count(flags.plan) != rendezvous->size) {
    // Those of the run so far were for other ranks.
    flags.plan = {};
  }
  // Read here too, so that a mistake is told before anything starts.
  const int64_t needed = flags.plan.is_given() ? rank_count(flags.plan) : 1;
  flags.asked_by = flags.nproc > 0 ? "--nproc" : name_of(flags.plan);
  flags.nproc = flags.nproc == 0 ? needed : flags.nproc;
  if (!rendezvous) {
    verify_room({flags.nproc, flags.asked_by, flags.oversubscribe});
    if (!flags.plan.plan.empty() && needed != flags.nproc) {
      verify_ranks(
          parse_plan(read_input(flags.plan.plan), flags.plan.plan),
          flags.nproc);
    }
  }
  flags.options.settings =
      settings_of(flags, rendezvous ? rendezvous->size : flags.nproc);
  if (!flags.found_plan.empty()) {
    flags.plan.plan = flags.found_plan;
  }
  const bool is_first =
      flags.graphs.empty() && (!rendezvous || rendezvous->rank == 0);
  const std::unique_ptr<RunLock> lock = take_folder(flags, is_first);
  if (!rendezvous && lock != nullptr) {
    put_flights_aside(cat(flags.options.output, "/flight"));
  }
  if (rendezvous) {
    train_one_of_many(flags, *rendezvous);
  } else if (flags.nproc == 1) {
    train_rank(flags, {});
  } else {
    start_train(flags, lock.get());
  }
}

}  // namespace

void add_train_command(CLI::App& app) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App* command =
      app.add_subcommand("train", "Train a model on data from disk");
  command->group(kStepGroup);
  add_train_flags(*command, *flags);
  command->footer(
      R"(SIGTERM and Ctrl-C save and leave; a second Ctrl-C leaves at once.

Examples:
  weft train gpt.py:gpt2_small --data corpus/ --steps 200 --nproc 2 --output run
  weft train --output run --resume --steps 400 --nproc 4
  weft train gpt.py:gpt2_small --data corpus/ --steps 200 --parallel data=2,zero=1
  torchrun --nproc-per-node 2 --no-python weft train gpt.py:gpt2_small --data tokens.bin --steps 200)");
  command->callback([flags, command] { run_train(*command, *flags); });
}

}  // namespace weft
