// SPDX-License-Identifier: Apache-2.0
// Numbers of a run by step, for programs to read: JSON lines, and event files
// for TensorBoard. Both can be taken up again after a checkpoint.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft {

// In the order in which they are written.
using MetricValues = std::vector<std::pair<std::string, double>>;

// A file with one line a step: {"step":41,"loss":3.25,"lr":0.001}. A number
// that JSON has no word for is null. Every line is in the file when write
// returns.
class JsonLines {
 public:
  // Begins a new file; with `resume_after`, keeps the lines up to that step and
  // drops later ones and a last one that was cut short. Throws UserError when
  // the path cannot be written, or holds other lines than these.
  explicit JsonLines(
      const std::string& path, std::optional<int64_t> resume_after = {});

  void write(int64_t step, const MetricValues& values);

 private:
  std::string path_;
  std::ofstream file_;
};

// A file that TensorBoard reads, in `folder`. With `resume_after`, what earlier
// files say of later steps does not count any more.
class EventFile {
 public:
  // Makes the folder if need be; throws UserError when it cannot be written.
  explicit EventFile(
      const std::string& folder, std::optional<int64_t> resume_after = {});

  void write(int64_t step, const MetricValues& values);

  const std::string& path() const { return path_; }

 private:
  void append(const std::string& event);

  std::string path_;
  std::ofstream file_;
};

}  // namespace weft
