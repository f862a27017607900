// SPDX-License-Identifier: Apache-2.0
#include "cli/load_model.h"

#include "base/error.h"
#include "base/text.h"

namespace weft {

LoadedModel load_model(const std::string& model, const ModelOptions& options) {
  WEFT_CHECK_USER(
      model.ends_with(".graph"),
      "cannot load this model: only FILE.graph can be read so far (make one "
      "with `weft capture`): ",
      model);
  WEFT_CHECK_USER(
      !options.batch_size && options.set.empty(),
      "a .graph file has its sizes written in; --batch-size and --set are for "
      "FILE.py:FUNCTION: ",
      model);
  LoadedModel loaded;
  loaded.graph = parse_graph(read_file(model), model);
  verify(loaded.graph);
  return loaded;
}

}  // namespace weft
