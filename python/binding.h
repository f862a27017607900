// SPDX-License-Identifier: Apache-2.0
// The parts of the extension weft._weft, one file each.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace weft {

void bind_command_line(pybind11::module_& module);
void bind_search(pybind11::module_& module);
void bind_state(pybind11::module_& module);
void bind_trainer(pybind11::module_& module);

}  // namespace weft
