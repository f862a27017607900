// SPDX-License-Identifier: Apache-2.0
#include "cli/train_settings.h"

#include "base/error.h"
#include "base/json.h"
#include "train/run_folder.h"

#include <torch/headeronly/version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A setting of run.json and where it lies among the flags.
struct Binding {
  std::string name;
  std::function<Json(const TrainFlags&)> get;
  std::function<void(TrainFlags&, const Json&)> set;
};

// A run may go on from another folder. Of FILE.py:FUNCTION too: what stands
// before the last slash is a folder.
std::string absolute(const std::string& path) {
  return path.empty() ? path : fs::absolute(path).lexically_normal().string();
}

Json absolute_paths(const Json& paths) {
  if (paths.is_string()) {
    return absolute(paths.get<std::string>());
  }
  Json all = Json::array();
  for (const Json& path : paths) {
    all.push_back(absolute(path.get<std::string>()));
  }
  return all;
}

template <typename T>
Json to_value(const T& field) {
  return Json(field);
}
template <typename T>
Json to_value(const std::optional<T>& field) {
  return field ? Json(*field) : Json();
}

template <typename T>
void from_value(const Json& value, T& field) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const int64_t number = whole_number(value);
    WEFT_CHECK_USER(std::in_range<T>(number), "out of range: ", number);
    field = static_cast<T>(number);
  } else {
    field = value.get<T>();
  }
}
template <typename T>
void from_value(const Json& value, std::optional<T>& field) {
  field.reset();
  if (!value.is_null()) {
    from_value(value, field.emplace());
  }
}

// `field` gives the place of a flag.
template <typename Field>
Binding bind(const char* name, Field field) {
  return {
      name,
      [field](const TrainFlags& flags) {
        return to_value(field(const_cast<TrainFlags&>(flags)));
      },
      [field](TrainFlags& flags, const Json& value) {
        from_value(value, field(flags));
      }};
}

template <typename Field>
Binding bind_paths(const char* name, Field field) {
  Binding binding = bind(name, field);
  binding.get = [get = binding.get](const TrainFlags& flags) {
    return absolute_paths(get(flags));
  };
  return binding;
}

#define WEFT_FLAG(place) [](TrainFlags& flags) -> auto& { return flags.place; }

std::vector<Binding> bindings() {
  return {
      bind_paths("MODEL", WEFT_FLAG(model.model)),
      bind("set", WEFT_FLAG(model.settings)),
      bind("loss", WEFT_FLAG(model.loss)),
      bind("python", WEFT_FLAG(model.python)),
      bind("batch-size", WEFT_FLAG(model.batch_size)),
      bind_paths("data", WEFT_FLAG(options.data)),
      bind("data-kind", WEFT_FLAG(data_kind)),
      bind_paths("tokenizer", WEFT_FLAG(options.dataset.tokenizer)),
      bind("extension", WEFT_FLAG(options.dataset.extensions)),
      bind("token-bytes", WEFT_FLAG(options.dataset.token_bytes)),
      bind("field", WEFT_FLAG(options.fields)),
      bind("in-order", WEFT_FLAG(in_order)),
      bind("keep-last", WEFT_FLAG(keep_last)),
      bind("seed", WEFT_FLAG(options.trainer.seed)),
      bind("evaluation-fraction", WEFT_FLAG(evaluation_fraction)),
      bind("evaluate-every", WEFT_FLAG(options.evaluate_every)),
      bind("evaluation-batches", WEFT_FLAG(options.evaluation_batches)),
      bind("steps", WEFT_FLAG(options.steps)),
      bind("schedule", WEFT_FLAG(schedule)),
      bind("learning-rate", WEFT_FLAG(learning_rate)),
      bind("optimizer", WEFT_FLAG(optimizer)),
      bind("optimizer-set", WEFT_FLAG(optimizer_settings)),
      bind("clip-norm", WEFT_FLAG(options.trainer.clip_norm)),
      bind("accumulate", WEFT_FLAG(options.trainer.accumulate)),
      bind("bad-loss", WEFT_FLAG(bad_loss)),
      bind("precision", WEFT_FLAG(precision)),
      bind("loss-scale", WEFT_FLAG(loss_scale)),
      bind("local-batch-norm", WEFT_FLAG(local_batch_norm)),
      bind_paths("load", WEFT_FLAG(options.load)),
      bind("nproc", WEFT_FLAG(nproc)),
      bind_paths("plan", WEFT_FLAG(plan.plan)),
      bind("parallel", WEFT_FLAG(plan.parallel)),
      bind("threads", WEFT_FLAG(options.threads)),
      bind("pin", WEFT_FLAG(pin)),
      bind("budget-bytes", WEFT_FLAG(options.trainer.budget_bytes)),
      bind("save-every", WEFT_FLAG(options.save_every)),
      bind("keep", WEFT_FLAG(options.keep)),
  };
}

#undef WEFT_FLAG

bool is_of_ranks(const std::string& name) {
  return name == "nproc" || name == "plan" || name == "parallel";
}

bool is_given(const CLI::App& command, const std::string& name) {
  const std::string flag = name == "MODEL" ? name : "--" + name;
  return command.get_option(flag)->count() > 0;
}

[[noreturn]] void refuse_setting(
    const TrainFlags& flags, const std::string& name, const std::string& why) {
  throw UserError(
      cat(flags.options.output, "/run.json is broken: ", name, ": ", why));
}

void take_over(
    const CLI::App& command, const RunRecord& before, TrainFlags& flags) {
  const bool has_ranks = is_given(command, "nproc") ||
                         is_given(command, "plan") ||
                         is_given(command, "parallel");
  for (const Binding& binding : bindings()) {
    const auto value = before.values.find(binding.name);
    if (value == before.values.end() || is_given(command, binding.name) ||
        (has_ranks && is_of_ranks(binding.name))) {
      continue;
    }
    try {
      binding.set(flags, parse_json<Json>(value->second));
    } catch (const Json::exception& error) {
      refuse_setting(flags, binding.name, json_fault(error));
    } catch (const UserError& error) {
      refuse_setting(flags, binding.name, error.what());
    }
  }
}

}  // namespace

void inherit_settings(const CLI::App& command, TrainFlags& flags) {
  if (flags.options.resume && !flags.options.output.empty()) {
    flags.options.before = read_run_record(flags.options.output);
    if (flags.options.before) {
      take_over(command, *flags.options.before, flags);
    }
  }
  for (const auto& [name, is_there] :
       {std::pair{"MODEL", !flags.model.model.empty()},
        std::pair{"--data", !flags.options.data.empty()},
        std::pair{"--steps", flags.options.steps > 0}}) {
    if (!is_there) {
      throw CLI::RequiredError(name);
    }
  }
}

RunValues settings_of(const TrainFlags& flags, int64_t ranks) {
  RunValues values;
  for (const Binding& binding : bindings()) {
    values[binding.name] = binding.get(flags).dump();
  }
  // Each has a rule.
  for (const auto& [name, value] : values) {
    WEFT_CHECK(
        std::any_of(
            run_settings().begin(),
            run_settings().end(),
            [&](const RunSetting& each) { return each.name == name; }),
        "no rule for ",
        name);
  }
  values["nproc"] = Json(ranks).dump();
  values["weft"] = Json(WEFT_VERSION).dump();
  values["torch"] = Json(TORCH_VERSION).dump();
  return values;
}

}  // namespace weft
