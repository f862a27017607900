// SPDX-License-Identifier: Apache-2.0
#include "train/run_settings.h"

#include "base/error.h"
#include "base/json.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "weft-run";
constexpr int64_t kVersion = 1;

constexpr std::string_view kFromNow = "it counts from the next step on";
constexpr std::string_view kSameSamples = "the samples are the same";
constexpr std::string_view kNoNumber = "no number depends on it";
constexpr std::string_view kRounding =
    "the ranks share the steps otherwise, and the losses are the same up to "
    "rounding";
constexpr std::string_view kFits =
    "its tensors have the names and shapes of the checkpoint's";

const RunSetting* find(
    const std::vector<RunSetting>& table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const RunSetting& each) {
        return each.name == name;
      });
  return found == table.end() ? nullptr : &*found;
}

// As a person writes it.
std::string show(const std::string& value) {
  const Json json = parse_json<Json>(value);
  if (json.is_array()) {
    std::vector<std::string> items;
    for (const Json& item : json) {
      items.push_back(item.is_string() ? item.get<std::string>() : item.dump());
    }
    return items.empty() ? "none" : join(items, " ");
  }
  if (json.is_string()) {
    return json.get<std::string>().empty() ? "none" : json.get<std::string>();
  }
  if (json.is_boolean()) {
    return json.get<bool>() ? "on" : "off";
  }
  return json.is_null() ? "none" : json.dump();
}

Json to_json(const RunValues& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) {
    json[name] = parse_json<Json>(value);
  }
  return json;
}

RunRecord record_of(const Json& json) {
  RunRecord record;
  for (const auto& [name, value] : json.at("settings").items()) {
    record.values[name] = value.dump();
  }
  for (const Json& past : json.at("changes")) {
    record.changes.push_back(
        {whole_number(past.at("after_step")),
         {past.at("setting"), past.at("was").dump(), past.at("is").dump()}});
  }
  return record;
}

// Of another program, or of another version of this one: nothing is broken.
struct OtherFormat : UserError {
  using UserError::UserError;
};

// `version` is null where the file is not ours.
[[noreturn]] RunRecord refuse_format(
    const Json& version, const std::string& source) {
  throw OtherFormat(
      version.is_null() ? cat(source, " does not describe a run of weft train")
                        : cat(source,
                              " has version ",
                              version.dump(),
                              ", and this weft reads version ",
                              kVersion,
                              ". Go on with the weft that wrote it"));
}

}  // namespace

const std::vector<RunSetting>& run_settings() {
  using enum WhenResumed;
  static const std::vector<RunSetting> table = {
      {"MODEL", MayChange, kFits, false},
      {"set", MayChange, kFits},
      {"loss", MustStay, "something else would be minimised"},
      {"python", MayChange, "it only captures the step"},
      {"step",
       MayChange,
       "the model's code or options, the batch, or the versions of torch and "
       "weft are others; its tensors are those of the checkpoint",
       false},
      {"batch-size",
       MayChange,
       "the order of the samples does not depend on it"},
      {"data", MayChange, kSameSamples},
      {"data-kind", MayChange, kSameSamples},
      {"tokenizer", MayChange, kSameSamples},
      {"extension", MayChange, kSameSamples},
      {"token-bytes", MayChange, kSameSamples},
      {"samples",
       MustStay,
       "their order and what is held out of them follow from all of them, so "
       "that some would be read twice and others never, or learnt and then "
       "evaluated on",
       false},
      {"field", MustStay, "the model would be fed with something else"},
      {"in-order",
       MustStay,
       "in another order some samples would be read twice and others never"},
      {"keep-last", MayChange, "it counts from the end of this epoch on"},
      {"seed", MustStay, "the order of the samples follows from it"},
      {"evaluation-fraction",
       MustStay,
       "samples that were held out would be trained on, or evaluated on though "
       "they were trained on"},
      {"evaluate-every", MayChange, "the samples that are held out stay so"},
      {"evaluation-batches",
       MayChange,
       "evaluation losses are means of other batches from now on"},
      {"steps", MayChange, "the run ends there"},
      {"schedule", MayChange, kFromNow},
      {"learning-rate", MayChange, kFromNow},
      {"learning-rates", MayChange, kFromNow, false},
      {"optimizer", MustStay, "its states were made by another rule"},
      {"optimizer-set", MayChange, kFromNow},
      {"clip-norm", MayChange, kFromNow},
      {"accumulate", MayChange, kFromNow},
      {"bad-loss", MayChange, kFromNow},
      {"precision",
       MustStay,
       "steps and parameters would be of another precision"},
      {"loss-scale", MustStay, "the scale goes on from the checkpoint's"},
      {"local-batch-norm",
       MustStay,
       "batch norms would be computed by another rule"},
      {"load", MustStay, "a run that goes on has its parameters"},
      {"nproc", MayChange, kRounding},
      {"plan", MayChange, kRounding},
      {"parallel", MayChange, kRounding},
      {"threads", MayChange, "sums are rounded otherwise"},
      {"pin", MayChange, kNoNumber},
      {"budget-bytes", MayChange, kNoNumber},
      {"save-every", MayChange, kNoNumber},
      {"keep", MayChange, kNoNumber},
      {"weft", MayChange, "another version may round otherwise", false},
      {"torch", MayChange, "another version may round otherwise", false},
  };
  return table;
}

const std::vector<RunSetting>& script_settings() {
  using enum WhenResumed;
  static const std::vector<RunSetting> table = {
      {"precision",
       MustStay,
       "steps and parameters would be of another precision",
       false},
      {"seed", MayChange, "dropout draws other numbers from now on", false},
      {"accumulate", MayChange, kFromNow, false},
      {"clip_norm", MayChange, kFromNow, false},
      {"bad_loss", MayChange, kFromNow, false},
  };
  return table;
}

std::vector<RunChange> changes_between(
    const std::vector<RunSetting>& table,
    const RunValues& before,
    const RunValues& now) {
  std::vector<RunChange> changes;
  for (const RunSetting& each : table) {
    const std::string name(each.name);
    const auto was = before.find(name);
    const auto is = now.find(name);
    if (was != before.end() && is != now.end() && was->second != is->second) {
      changes.push_back({name, was->second, is->second});
    }
  }
  return changes;
}

std::string explain(
    const std::vector<RunSetting>& table, const RunChange& change) {
  const RunSetting* setting = find(table, change.name);
  WEFT_CHECK(setting != nullptr, "no setting ", change.name);
  return cat(
      setting->is_flag ? "--" : "",
      change.name,
      " was ",
      show(change.was),
      ", is ",
      show(change.is),
      ": ",
      setting->why);
}

void refuse_changes(
    const std::vector<RunSetting>& table,
    const std::vector<RunChange>& changes,
    const std::string& what,
    const std::string& way_out) {
  std::vector<std::string> refused;
  for (const RunChange& change : changes) {
    if (find(table, change.name)->rule == WhenResumed::MustStay) {
      refused.push_back(explain(table, change));
    }
  }
  WEFT_CHECK_USER(
      refused.empty(),
      what,
      " cannot go on so: ",
      join(refused, "; "),
      ". ",
      way_out);
}

std::string print(const RunRecord& record) {
  Json changes = Json::array();
  for (const RunRecord::Past& past : record.changes) {
    changes.push_back(
        {{"after_step", past.step},
         {"setting", past.change.name},
         {"was", parse_json<Json>(past.change.was)},
         {"is", parse_json<Json>(past.change.is)}});
  }
  const Json json = {
      {"format", kFormat},
      {"version", kVersion},
      {"settings", to_json(record.values)},
      {"changes", std::move(changes)}};
  return json.dump(1) + "\n";
}

RunRecord parse_run_record(const std::string& text, const std::string& source) {
  const auto refuse = [&](const std::string& why) -> RunRecord {
    throw UserError(
        cat(source,
            " is broken: ",
            why,
            ". Remove it to go on with the settings of the command line "
            "alone"));
  };
  try {
    const Json json = parse_json<Json>(text);
    const bool is_record = json.is_object() && json.contains("format") &&
                           json.at("format") == kFormat;
    return is_record && json.at("version") == kVersion
               ? record_of(json)
               : refuse_format(is_record ? json.at("version") : Json(), source);
  } catch (const OtherFormat&) {
    throw;
  } catch (const Json::exception& error) {
    return refuse(json_fault(error));
  } catch (const UserError& error) {
    return refuse(error.what());
  }
}

}  // namespace weft
