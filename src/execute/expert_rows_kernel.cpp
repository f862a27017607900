// SPDX-License-Identifier: Apache-2.0
#include "execute/expert_rows_kernel.h"

#include "base/error.h"
#include "ops/call.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace weft {
namespace {

// What a kernel keeps of KernelArguments.
struct RowsCall {
  Node node;
  std::string name;
  std::vector<at::Tensor> operands;
  std::vector<at::Tensor> results;
};

const int64_t* row_numbers(const at::Tensor& tensor) {
  return tensor.const_data_ptr<int64_t>();
}

void expert_rows(const RowsCall& in) {
  const at::Tensor ids = in.operands[0].contiguous();
  const int64_t samples = ids.size(0);
  const int64_t choices = ids.size(1);
  const int64_t experts = int_arg(in.node, 1, 1);
  const int64_t groups = int_arg(in.node, 2, 1);
  const int64_t seats = int_arg(in.node, 3, 1);
  const int64_t first = int_arg(in.node, 4, 0);
  auto* rows = in.results[0].mutable_data_ptr<int64_t>();
  auto* ends = in.results[1].mutable_data_ptr<int64_t>();
  std::fill(rows, rows + in.results[0].numel(), int64_t{-1});
  std::vector<int64_t> next(static_cast<size_t>(experts) + 1);
  for (int64_t e = 0; e < groups; ++e) {
    const int64_t low = (first + e) * experts;
    for (int64_t b = 0; b < samples; ++b) {
      const int64_t* mine = row_numbers(ids) + b * choices;
      std::fill(next.begin(), next.end(), 0);
      for (int64_t i = 0; i < choices; ++i) {
        if (mine[i] >= low && mine[i] < low + experts) {
          ++next[static_cast<size_t>(mine[i] - low) + 1];
        }
      }
      for (size_t g = 1; g < next.size(); ++g) {
        next[g] += next[g - 1];
      }
      const int64_t at = e * samples + b;
      WEFT_CHECK_USER(
          next.back() <= seats,
          in.name,
          ": ",
          next.back(),
          " choices of one sample fall to the experts of one rank, and the "
          "plan "
          "has seats for ",
          seats,
          "; give more seats, as in seats=4, or leave seats out: then there is "
          "room for all");
      std::copy(next.begin() + 1, next.end(), ends + at * experts);
      for (int64_t i = 0; i < choices; ++i) {
        if (mine[i] >= low && mine[i] < low + experts) {
          rows[at * seats + next[static_cast<size_t>(mine[i] - low)]++] = i;
        }
      }
    }
  }
}

// [samples][rows][bytes of a row]
void take_rows(const RowsCall& in) {
  const at::Tensor values = in.operands[0].contiguous();
  const at::Tensor rows = in.operands[1].contiguous();
  const int64_t samples = values.size(0);
  const int64_t count = values.size(1);
  const int64_t seats = rows.size(2);
  const int64_t elements =
      values.numel() == 0 ? 0 : values.numel() / (samples * count);
  const auto bytes = static_cast<size_t>(
      elements * static_cast<int64_t>(values.element_size()));
  const auto* from = static_cast<const char*>(values.const_data_ptr());
  auto* to = static_cast<char*>(in.results[0].mutable_data_ptr());
  const int64_t* which = row_numbers(rows);
  for (int64_t i = 0; i < rows.numel(); ++i, to += bytes) {
    const int64_t sample = i / seats % samples;
    if (which[i] < 0) {
      std::memset(to, 0, bytes);
    } else {
      const auto at = static_cast<size_t>(sample * count + which[i]);
      std::memcpy(to, from + at * bytes, bytes);
    }
  }
}

at::ScalarType rows_sum_type(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return type == at::kBFloat16 || type == at::kHalf ? at::kFloat : type;
}

template <typename T>
void add_rows(const RowsCall& in, const at::Tensor& values, at::Tensor& sums) {
  const at::Tensor rows = in.operands[1].contiguous();
  const int64_t samples = rows.size(1);
  const int64_t seats = rows.size(2);
  const int64_t count = sums.size(1);
  const int64_t width = rows.numel() == 0 ? 0 : values.numel() / rows.numel();
  const T* from = values.const_data_ptr<T>();
  T* to = sums.mutable_data_ptr<T>();
  for (int64_t i = 0; i < rows.numel(); ++i, from += width) {
    const int64_t row = row_numbers(rows)[i];
    if (row < 0) {
      continue;
    }
    T* into = to + (i / seats % samples * count + row) * width;
    for (int64_t k = 0; k < width; ++k) {
      into[k] += from[k];
    }
  }
}

void add_rows(const RowsCall& in) {
  const at::ScalarType type = rows_sum_type(in.operands[0]);
  WEFT_CHECK_USER(
      type == at::kFloat || type == at::kDouble,
      in.name,
      ": rows of this element type cannot be added up by expert");
  const at::Tensor values = in.operands[0].to(type).contiguous();
  const bool is_direct =
      in.results[0].scalar_type() == type && in.results[0].is_contiguous();
  at::Tensor sums = is_direct
                        ? in.results[0]
                        : at::zeros(in.results[0].sizes(), values.options());
  sums.zero_();
  if (type == at::kFloat) {
    add_rows<float>(in, values, sums);
  } else {
    add_rows<double>(in, values, sums);
  }
  if (!is_direct) {
    in.results[0].copy_(sums);
  }
}

// Where the rows of an expert begin and how many there are, in a group and a
// sample.
struct RowStretch {
  int64_t first = 0;
  int64_t count = 0;
};

// By group, expert and sample.
RowStretch stretch_of(
    const at::Tensor& ends, int64_t seats, int64_t e, int64_t b, int64_t g) {
  const int64_t at = e * ends.size(1) + b;
  const int64_t* mine = row_numbers(ends) + at * ends.size(2);
  const int64_t first = g == 0 ? 0 : mine[g - 1];
  return {at * seats + first, std::max<int64_t>(mine[g] - first, 0)};
}

template <typename Visit>
void for_each_row_stretch(const at::Tensor& ends, int64_t rows, Visit&& visit) {
  const int64_t seats =
      ends.size(0) * ends.size(1) == 0 ? 0 : rows / ends.size(0) / ends.size(1);
  for (int64_t e = 0; e < ends.size(0); ++e) {
    for (int64_t g = 0; g < ends.size(2); ++g) {
      for (int64_t b = 0; b < ends.size(1); ++b) {
        const RowStretch stretch = stretch_of(ends, seats, e, b, g);
        if (stretch.count > 0) {
          visit(e * ends.size(2) + g, stretch);
        }
      }
    }
  }
}

void grouped_mm(const RowsCall& in) {
  const at::Tensor& a = in.operands[0];
  const at::Tensor& b = in.operands[1];
  const at::Tensor ends = in.operands[2].contiguous();
  const at::Tensor& result = in.results[0];
  if (b.dim() == 3) {
    result.zero_();
    for_each_row_stretch(
        ends, a.size(0), [&](int64_t expert, const RowStretch& stretch) {
          at::Tensor into = result.narrow(0, stretch.first, stretch.count);
          at::mm_out(
              into, a.narrow(0, stretch.first, stretch.count), b[expert]);
        });
    return;
  }
  const at::ScalarType type = rows_sum_type(result);
  const bool is_direct = result.scalar_type() == type;
  at::Tensor sums =
      is_direct ? result
                : at::zeros(result.sizes(), result.options().dtype(type));
  sums.zero_();
  for_each_row_stretch(
      ends, b.size(0), [&](int64_t expert, const RowStretch& stretch) {
        at::Tensor into = sums[expert];
        const at::Tensor rows = b.narrow(0, stretch.first, stretch.count);
        const at::Tensor columns = a.narrow(1, stretch.first, stretch.count);
        into.add_(at::mm(columns, rows));
      });
  if (!is_direct) {
    result.copy_(sums);
  }
}

using RowsRun = void (*)(const RowsCall&);

RowsRun find_rows_run(std::string_view op) {
  return op == "weft.expert_rows"  ? &expert_rows
         : op == "weft.take_rows"  ? &take_rows
         : op == "weft.add_rows"   ? static_cast<RowsRun>(&add_rows)
         : op == "weft.grouped_mm" ? &grouped_mm
                                   : nullptr;
}

}  // namespace

Kernel bind_expert_rows_kernel(const KernelArguments& arguments) {
  const RowsRun run = find_rows_run(arguments.node.op);
  if (run == nullptr) {
    return {};
  }
  return [run,
          bound = RowsCall{
              arguments.node,
              arguments.function[arguments.node.results.front()].name,
              arguments.operands,
              arguments.results}](const StepContext&) { run(bound); };
}

}  // namespace weft
