// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/tensor_source.h"

#include <string>
#include <vector>

namespace weft {

// A tensor of the source, and what it is called in the file.
struct ExportName {
  std::string name;
  std::string exported;
};

// Writes one `.safetensors` file with whole tensors, in this order, that
// Hugging Face and safetensors.torch read. A tensor that is named again (tied
// weights) is written again: the format shares nothing, and who loads the file
// strictly looks for every name. The file is written aside and
// renamed; one tensor at a time is in memory. Throws UserError as
// TensorSource::read and TensorFileWriter do, and leaves no file then.
void export_tensors(
    TensorSource& source,
    const std::vector<ExportName>& names,
    const std::string& path);

}  // namespace weft
