// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "checkpoint/output_file.h"
#include "train/metrics.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string_view>

namespace weft {
namespace {

constexpr std::string_view kBegin = "{\"step\":";

std::string json_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[7];
      std::snprintf(code, sizeof(code), "\\u%04x", c);
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string json_number(double value) {
  return std::isfinite(value) ? print_double(value) : "null";
}

std::optional<int64_t> step_of(std::string_view line) {
  if (line.substr(0, kBegin.size()) != kBegin || line.back() != '}') {
    return std::nullopt;
  }
  line.remove_prefix(kBegin.size());
  const std::optional<int64_t> step = take_integer(line);
  return line.starts_with(',') || line.starts_with('}') ? step : std::nullopt;
}

// The lines that stay.
std::string lines_up_to(const std::string& path, int64_t last) {
  const std::string text = read_file(path);
  std::string kept;
  size_t begin = 0;
  int64_t number = 1;
  for (size_t end = text.find('\n'); end != std::string::npos;
       end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end - begin);
    const std::optional<int64_t> step =
        line.empty() ? std::nullopt : step_of(line);
    WEFT_CHECK_USER(
        step,
        path,
        ":",
        number,
        ": this line is not one of a run's metrics, and the run would go on "
        "below it: give another file, or remove this one");
    if (*step <= last) {
      kept += line + "\n";
    }
    begin = end + 1;
    ++number;
  }
  return kept;
}

}  // namespace

JsonLines::JsonLines(
    const std::string& path, std::optional<int64_t> resume_after)
    : path_(path) {
  refuse_link(path);
  if (resume_after && std::filesystem::exists(path)) {
    write_file(path, lines_up_to(path, *resume_after));
    file_.open(path, std::ios::app);
  } else {
    file_.open(path, std::ios::trunc);
  }
  WEFT_CHECK_USER(file_.good(), "cannot write ", path);
}

void JsonLines::write(int64_t step, const MetricValues& values) {
  std::string line = cat(kBegin, step);
  for (const auto& [name, value] : values) {
    line += cat(",", json_string(name), ":", json_number(value));
  }
  file_ << line + "}\n" << std::flush;
  WEFT_CHECK_USER(file_.good(), "cannot write ", path_, ": is the disk full?");
}

}  // namespace weft
