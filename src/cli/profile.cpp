// SPDX-License-Identifier: Apache-2.0
// weft profile: what one step of a model costs.
#include "profile/profile.h"

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/load_model.h"
#include "cli/number_flags.h"
#include "cli/terminal.h"
#include "profile/profile_print.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

constexpr int64_t kMostDepth = 1'000;

struct ProfileFlags {
  ModelFlags model;
  std::vector<int64_t> batch_sizes;
  std::vector<std::string> compared;
  bool json = false;
  bool ascii = false;
  std::string by = "module";
  int depth = ProfileView{}.depth;
};

// One model to profile, and what to call it.
struct Subject {
  std::string name;
  std::string model;
  ModelOptions options;
};

ProfileBy parse_by(const std::string& word) {
  if (word == "module") {
    return ProfileBy::Module;
  }
  if (word == "op") {
    return ProfileBy::Op;
  }
  WEFT_CHECK_USER(
      word == "phase", "--by takes module, op or phase, found: ", word);
  return ProfileBy::Phase;
}

std::vector<Subject> subjects(const ProfileFlags& flags) {
  std::vector<std::string> models = flags.compared;
  const bool is_comparison = !models.empty();
  if (!flags.model.model.empty()) {
    models.insert(models.begin(), flags.model.model);
  }
  WEFT_CHECK_USER(
      !models.empty(), "name a model: weft profile MODEL, or --compare A B");
  const size_t sizes = flags.batch_sizes.size();
  const bool is_by_size = models.size() == 1 && sizes == 2;
  WEFT_CHECK_USER(
      models.size() <= 2 && (sizes <= 1 || is_by_size),
      "two profiles can be compared: two models with at most one batch size, "
      "or one model with two; found ",
      models.size(),
      " and ",
      sizes);
  WEFT_CHECK_USER(
      is_comparison || sizes <= 1,
      "for two batch sizes, say --compare ",
      models.front());
  WEFT_CHECK_USER(
      !is_comparison || models.size() == 2 || is_by_size,
      "--compare takes two models, or one and --batch-size N,M");

  std::vector<Subject> found;
  for (size_t i = 0; i < std::max(models.size(), sizes); ++i) {
    Subject subject;
    subject.model = models[is_by_size ? 0 : i];
    subject.name = subject.model.substr(subject.model.rfind('/') + 1);
    subject.options = model_options(flags.model);
    if (sizes > 0) {
      subject.options.batch_size = flags.batch_sizes[is_by_size ? i : 0];
    }
    if (is_by_size) {
      subject.name = cat("batch ", flags.batch_sizes[i]);
    }
    found.push_back(std::move(subject));
  }
  return found;
}

Profile profile_of(const Subject& subject) {
  ProgressLine progress(cat("capturing ", subject.model, " ..."));
  const LoadedModel loaded = load_model(subject.model, subject.options);
  progress.say(cat("profiling ", subject.model, " ..."));
  Profile found = profile(loaded.graph);
  if (loaded.capture_seconds > 0) {
    found.build_seconds = loaded.build_seconds;
    found.capture_seconds = loaded.capture_seconds;
  }
  return found;
}

void run(const ProfileFlags& flags) {
  const ProfileBy by = parse_by(flags.by);
  const std::vector<Subject> all = subjects(flags);
  std::vector<Profile> profiles;
  for (const Subject& subject : all) {
    profiles.push_back(profile_of(subject));
  }
  const TextStyle style = stdout_style(flags.ascii);
  std::string out;
  if (flags.json) {
    nlohmann::json made = nlohmann::json::array();
    for (const Profile& each : profiles) {
      made.push_back(to_json(each));
    }
    out = (made.size() == 1 ? made[0] : made).dump(2) + "\n";
  } else if (profiles.size() == 2) {
    out = print_comparison(
        all[0].name, profiles[0], all[1].name, profiles[1], style);
  } else {
    out = print(profiles[0], {.by = by, .depth = flags.depth, .style = style});
  }
  write_output("-", out);
}

}  // namespace

void add_profile_command(CLI::App& app) {
  const auto flags = std::make_shared<ProfileFlags>();
  CLI::App* command = app.add_subcommand(
      "profile", "Count what one step costs, running nothing");
  command->group(kStepGroup);
  add_model_flags(*command, flags->model);
  command
      ->add_option(
          "--batch-size",
          flags->batch_sizes,
          "The batch that FUNCTION is asked for; with --compare, two: 8,16")
      ->type_name("N")
      ->delimiter(',')
      ->expected(1)
      ->take_all()
      ->transform(whole_number(kBatchRows));
  command->add_option("--by", flags->by, "The table: module, op or phase")
      ->type_name("WHAT");
  command->add_option("--depth", flags->depth, "Levels of modules in the table")
      ->type_name("N")
      ->transform(whole_number({0, kMostDepth}));
  command
      ->add_option(
          "--compare",
          flags->compared,
          "Two models side by side; or one, at two batch sizes")
      ->type_name("A B")
      ->expected(1, 2);
  command->add_flag("--json", flags->json, "JSON, as docs/profile.md has it");
  command->add_flag("--ascii", flags->ascii, "Bars of plain letters");
  command->footer(R"(Examples:
  weft profile gpt.py:gpt2_xl
  weft profile gpt.py:gpt2_xl --batch-size 4 --by op
  weft profile gpt.py:gpt2_small --set layers=24 --depth 3
  weft profile --compare gpt.py:gpt2_xl --batch-size 8,16
  weft profile --compare before.graph after.graph)");
  command->callback([flags] { run(*flags); });
}

}  // namespace weft
