// SPDX-License-Identifier: Apache-2.0
#include "cli/train_flags.h"

#include "base/text.h"
#include "cli/commands.h"
#include "cli/number_flags.h"
#include "cli/rank_flags.h"
#include "graph/most_ranks.h"

#include <CLI/CLI.hpp>

namespace weft {
namespace {

constexpr IntegerRange kSometimes = {0, kSteps.most};

void add_data_flags(CLI::App& command, TrainFlags& flags) {
  constexpr const char* kGroup = "Data";
  TrainOptions& options = flags.options;
  command
      .add_option(
          "--data",
          options.data,
          "Folders or files: text, tokens (.bin), arrays (.npy, .safetensors)")
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
      ->transform(whole_number(kSteps))
      ->type_name("N")
      ->group(kGroup);
  command
      .add_option(
          "--learning-rate",
          flags.learning_rate,
          "In place of the optimizer's own")
      ->transform(any_number(NumberRange::NotNegative))
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
      ->transform(any_number(NumberRange::NotNegative))
      ->type_name("NORM")
      ->group(kGroup);
  command
      .add_option(
          "--accumulate",
          options.trainer.accumulate,
          "Batches whose gradients make one step")
      ->transform(whole_number(kSteps))
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
      ->transform(any_number(NumberRange::Positive))
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
      ->transform(whole_number({}))
      ->group(kGroup);
  command
      .add_option(
          "--evaluate-every",
          options.evaluate_every,
          "Steps between evaluations on held-out samples")
      ->transform(whole_number(kSometimes))
      ->type_name("N")
      ->group(kGroup);
  command
      .add_option(
          "--evaluation-batches",
          options.evaluation_batches,
          "How many of them, at most")
      ->transform(whole_number(kSteps))
      ->type_name("N")
      ->group(kGroup);
  command
      .add_option(
          "--evaluation-fraction",
          flags.evaluation_fraction,
          "The share of samples that is held out; 0.05 where they are "
          "evaluated on")
      ->transform(any_number(NumberRange::NotNegative))
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
      ->transform(whole_number(kSometimes))
      ->type_name("N")
      ->group(kGroup);
  command.add_option("--keep", options.keep, "Checkpoints that stay; 0: all")
      ->transform(whole_number(kSometimes))
      ->type_name("N")
      ->group(kGroup);
  command
      .add_flag(
          "--resume",
          options.resume,
          "Go on from the last whole checkpoint in --output, with its settings "
          "where no other are given")
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
      ->transform(whole_number({1, kMostMeshRanks}))
      ->type_name("N")
      ->group(kGroup);
  add_oversubscribe_flag(command, flags.oversubscribe);
  command.get_option("--oversubscribe")->group(kGroup);
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
      ->transform(whole_number(kThreads))
      ->type_name("N")
      ->group(kGroup);
  command.add_flag("--pin", flags.pin, "Keep each rank on a core of its own")
      ->group(kGroup);
  command
      .add_option(
          "--budget-bytes",
          options.trainer.budget_bytes,
          "The most memory that a rank may use")
      ->transform(whole_number({0, kMemoryBytes.most}))
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
  command.add_option("--found-plan", flags.found_plan)->group("");
}
}  // namespace

void add_train_flags(CLI::App& command, TrainFlags& flags) {
  add_model_flags(command, flags.model);
  add_batch_size_flag(command, flags.model);
  add_data_flags(command, flags);
  add_step_flags(command, flags);
  add_output_flags(command, flags);
  add_rank_flags(command, flags);
}

}  // namespace weft
