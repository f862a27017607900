// SPDX-License-Identifier: Apache-2.0
// Ops whose results have sizes that the data decide. A Graph has one size for
// every value, so a step that uses them cannot be captured; these entries let
// the message say so.
#include "ops/families.h"

namespace weft {

void add_data_dependent_ops(OpTable& ops) {
  add_ops(
      ops,
      {"aten.nonzero",
       "aten.masked_select",
       "aten._unique",
       "aten._unique2",
       "aten.unique_dim",
       "aten.unique_consecutive",
       "aten.unique_dim_consecutive",
       "aten.bincount",
       "aten.repeat_interleave.Tensor",
       "aten._pack_padded_sequence"},
      {.kind = OpKind::DataDependent});
}

}  // namespace weft
