// SPDX-License-Identifier: Apache-2.0
// Walks the op table and proves every entry (see prover.h).
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "prover.h"

namespace weft {
namespace {

TEST(RuleProof, EveryEntryHolds) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(7);
  // Only entries whose name contains this, while one is being written.
  const char* only = std::getenv("WEFT_PROVE");
  Proof proof;
  int64_t entries = 0;
  for (const OpDef& def : all_ops()) {
    if (only == nullptr ||
        def.name.find(only) != std::string_view::npos) {
      ++entries;
      prove(def, proof);
    }
  }
  for (const std::string& failure : proof.failures) {
    ADD_FAILURE() << failure;
  }
  std::puts(cat(entries,
                " entries, ",
                proof.examples,
                " examples, ",
                proof.splits,
                " splits, ",
                proof.double_splits,
                " double splits, ",
                proof.types,
                " types of ours and ",
                proof.meta_types,
                " of meta kernels, ",
                proof.flops,
                " flops, ",
                proof.linear,
                " sums, ",
                proof.not_run,
                " not run: ",
                proof.failures.size(),
                " failures")
                .c_str());
}

}  // namespace
}  // namespace weft
