// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weft {

// What a large product of f32 matrices reaches here with the threads that are
// set: the peak against which utilisation is told. Takes about a tenth of a
// second.
double measured_flops_per_second();

}  // namespace weft
