// SPDX-License-Identifier: Apache-2.0
// weft profile: what one step of a model costs.
#include "profile/profile.h"

#include "base/error.h"
#include "base/text.h"
#include "cli/load_model.h"
#include "cli/terminal.h"
#include "profile/profile_print.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

struct ProfileFlags {
  std::string model;
  std::vector<int64_t> batch_sizes;
  std::vector<std::string> settings;
  std::string python;
  std::vector<std::string> compared;
  bool json = false;
  bool ascii = false;
  ProfileBy by = ProfileBy::Module;
  int depth = ProfileView{}.depth;
};

// One model to profile, and what to call it.
struct Subject {
  std::string name;
  std::string model;
  ModelOptions options;
};

ModelOptions model_options(const ProfileFlags& flags) {
  ModelOptions options;
  options.python = flags.python;
  for (const std::string& setting : flags.settings) {
    const size_t equals = setting.find('=');
    WEFT_CHECK_USER(
        equals != std::string::npos && equals > 0,
        "--set takes key=value, found: ",
        setting);
    options.set.emplace_back(
        setting.substr(0, equals), setting.substr(equals + 1));
  }
  return options;
}

std::vector<Subject> subjects(const ProfileFlags& flags) {
  std::vector<std::string> models = flags.compared;
  const bool is_comparison = !models.empty();
  if (!flags.model.empty()) {
    models.insert(models.begin(), flags.model);
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
    subject.options = model_options(flags);
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
  const std::vector<Subject> all = subjects(flags);
  std::vector<Profile> profiles;
  for (const Subject& subject : all) {
    profiles.push_back(profile_of(subject));
  }
  const TextStyle style = stdout_style(flags.ascii);
  if (flags.json) {
    nlohmann::json made = nlohmann::json::array();
    for (const Profile& each : profiles) {
      made.push_back(to_json(each));
    }
    std::cout << (made.size() == 1 ? made[0] : made).dump(2) << "\n";
  } else if (profiles.size() == 2) {
    std::cout << print_comparison(
        all[0].name, profiles[0], all[1].name, profiles[1], style);
  } else {
    std::cout << print(
        profiles[0], {.by = flags.by, .depth = flags.depth, .style = style});
  }
}

}  // namespace

void add_profile_command(CLI::App& app) {
  const auto flags = std::make_shared<ProfileFlags>();
  CLI::App* command = app.add_subcommand(
      "profile",
      "Count what one step costs: parameters, flops, bytes, peak memory, "
      "equal layers. Nothing is run.");
  command->add_option(
      "model", flags->model, "FILE.py:FUNCTION, FILE.pt2 or FILE.graph");
  command
      ->add_option(
          "--batch-size",
          flags->batch_sizes,
          "The batch that FUNCTION is asked for; two, as 8,16, with --compare")
      ->delimiter(',')
      ->expected(1)
      ->check(CLI::PositiveNumber);
  command
      ->add_option(
          "--set", flags->settings, "key=value, an argument of FUNCTION")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--python", flags->python, "The interpreter for FILE.py");
  command
      ->add_option(
          "--compare",
          flags->compared,
          "Two models side by side; or one, with two batch sizes")
      ->expected(1, 2);
  const std::map<std::string, ProfileBy> kinds = {
      {"module", ProfileBy::Module},
      {"op", ProfileBy::Op},
      {"phase", ProfileBy::Phase},
  };
  command->add_option("--by", flags->by, "The table: module, op or phase")
      ->transform(CLI::CheckedTransformer(kinds));
  command->add_option("--depth", flags->depth, "Levels of modules in the table")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", flags->json, "Write JSON (see docs/profile.md)");
  command->add_flag("--ascii", flags->ascii, "Draw bars with plain letters");
  command->callback([flags] { run(*flags); });
}

}  // namespace weft
