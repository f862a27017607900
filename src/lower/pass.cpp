// SPDX-License-Identifier: Apache-2.0
#include "lower/pass.h"

#include "base/error.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <utility>

namespace weft {
namespace {

void check_disabled(
    const std::vector<Pass>& passes, const std::vector<std::string>& disabled) {
  for (const std::string& name : disabled) {
    std::vector<std::string> optional;
    for (const Pass& pass : passes) {
      if (pass.optional) {
        optional.emplace_back(pass.name);
      }
    }
    WEFT_CHECK_USER(
        std::find(optional.begin(), optional.end(), name) != optional.end(),
        "[lower] no pass that can be left out is called ",
        quote(name),
        " (known: ",
        join(optional, ", "),
        ")");
  }
}

// The text after a pass: the graph with its layouts until there is a program.
std::string dump(const Lowering& lowering) {
  if (!lowering.by_position.empty()) {
    std::string out;
    for (const Lowering& one : lowering.by_position) {
      out +=
          cat("// position ", one.position.value_or(0), "\n", dump(one), "\n");
    }
    return out;
  }
  if (!lowering.program.blocks.empty()) {
    return print(lowering.program);
  }
  std::string out = print(lowering.graph);
  const Function& step = step_of(lowering.graph);
  for (size_t i = 0; i < lowering.layouts.size(); ++i) {
    out +=
        cat("// %",
            step.values[i].name,
            " ",
            print(lowering.layouts[i]),
            lowering.resting[i] == lowering.layouts[i]
                ? ""
                : cat(" then ", print(lowering.resting[i])),
            "\n");
  }
  return out;
}

void verify_after(const Lowering& lowering) {
  for (const Lowering& one : lowering.by_position) {
    verify_after(one);
  }
  if (lowering.program.blocks.empty()) {
    verify(lowering.graph);
  } else {
    verify(lowering.program);
  }
}

void run_pass(const Pass& pass, Lowering& lowering) {
  if (pass.by_position && !lowering.by_position.empty()) {
    for (Lowering& one : lowering.by_position) {
      run_pass(pass, one);
    }
    return;
  }
  try {
    pass.run(lowering);
    for (Block& block : lowering.program.blocks) {
      renumber(block);
    }
  } catch (const UserError& error) {
    throw UserError(cat("[lower/", pass.name, "] ", error.what()));
  } catch (const InternalError& error) {
    throw InternalError(cat("[lower/", pass.name, "] ", error.what()));
  }
}

// The input was verified before the first pass, so what is wrong now is the
// pass's fault.
void check_pass(const Pass& pass, const Lowering& lowering) {
  try {
    verify_after(lowering);
  } catch (const UserError& error) {
    throw InternalError(cat("after [lower/", pass.name, "]: ", error.what()));
  }
}

}  // namespace

void add_block(
    Program& program,
    std::vector<std::vector<Origin>>& origins,
    Block block,
    std::vector<Origin> of_block) {
  renumber(block);
  if (!program.blocks.empty() &&
      team_of(program, program.blocks.back().first_rank) ==
          team_of(program, block.last_rank)) {
    Block& last = program.blocks.back();
    const int64_t rank = block.last_rank;
    block.first_rank = last.first_rank;
    const int64_t before = std::exchange(last.last_rank, rank);
    if (block == last) {
      return;
    }
    last.last_rank = before;
    block.first_rank = rank;
  }
  program.blocks.push_back(std::move(block));
  origins.push_back(std::move(of_block));
}

void name_blocks(Program& program) {
  for (Block& block : program.blocks) {
    if (program.blocks.size() > 1) {
      block.function.name = cat(block.function.name, ".", block.first_rank);
    }
  }
}

bool is_later(Phase phase) {
  return phase == Phase::Backward || phase == Phase::Optimizer ||
         phase == Phase::Recompute;
}

void run_passes(
    const std::vector<Pass>& passes,
    Lowering& lowering,
    const LowerOptions& options) {
  using Clock = std::chrono::steady_clock;
  check_disabled(passes, options.disabled);
  verify_after(lowering);
  std::string before = options.dump_dir.empty() ? "" : dump(lowering);
  int number = 0;
  for (const Pass& pass : passes) {
    ++number;
    if (std::find(
            options.disabled.begin(), options.disabled.end(), pass.name) !=
        options.disabled.end()) {
      continue;
    }
    const Clock::time_point start = Clock::now();
    run_pass(pass, lowering);
    // What does not verify can be looked at, too.
    std::string after = options.dump_dir.empty() ? "" : dump(lowering);
    if (after != before) {
      std::filesystem::create_directories(options.dump_dir);
      const bool is_program = !lowering.program.blocks.empty();
      write_file(
          cat(options.dump_dir,
              "/30_lower_",
              number < 10 ? "0" : "",
              number,
              "_",
              pass.name,
              is_program ? ".program" : ".graph"),
          after);
      before = std::move(after);
    }
    if (options.verify_each || &pass == &passes.back()) {
      check_pass(pass, lowering);
    }
    if (options.print_times) {
      const std::chrono::duration<double> taken = Clock::now() - start;
      std::cerr << std::fixed << std::setprecision(3) << std::setw(9)
                << taken.count() * 1e3 << " ms  " << pass.name << "\n";
    }
  }
}

}  // namespace weft
