// SPDX-License-Identifier: Apache-2.0
#include "train/state_store.h"

#include "aten/types.h"
#include "base/error.h"
#include "checkpoint/checkpoint_index.h"
#include "execute/initialise.h"
#include "execute/tensor_piece.h"
#include "program/piece.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

namespace weft {
namespace {

TensorType whole_type(const Trainer& trainer, const Trainer::Resident& each) {
  return make_type(
      each.type.dtype,
      whole_sizes(each.type, each.layout, trainer.team().mesh));
}

// A box of the whole tensor that this rank holds, and where: a part of its
// piece.
struct HeldBox {
  Box box;
  at::Tensor held;
};

// One, unless the piece of a dim is in several ranges.
std::vector<HeldBox> boxes_of(
    const Trainer& trainer,
    const Trainer::Resident& each,
    const at::Tensor& piece) {
  std::vector<HeldBox> boxes = {{{}, piece}};
  const TensorType whole = whole_type(trainer, each);
  for (size_t dim = 0; dim < whole.sizes.size(); ++dim) {
    std::vector<HeldBox> cut;
    for (const HeldBox& one : boxes) {
      int64_t start = 0;
      for (const Piece& range : ranges_of(
               trainer.team().mesh,
               each.layout.dims[dim],
               whole.sizes[dim],
               number_in(trainer.team(), trainer.options().rank))) {
        HeldBox& part = cut.emplace_back(one);
        part.box.start.push_back(range.start);
        part.box.size.push_back(range.size);
        part.held =
            one.held.narrow(static_cast<int64_t>(dim), start, range.size);
        start += range.size;
      }
    }
    boxes = std::move(cut);
  }
  return boxes;
}

// Which of the ranks that hold this piece the rank is, and how many there are.
std::pair<int64_t, int64_t> replica(
    const Trainer& trainer, const Trainer::Resident& each) {
  const Trainer::Kept* kept = trainer.find_kept(resident_name(each.input));
  WEFT_CHECK(kept != nullptr, "a resident that nobody keeps");
  const Axes axes = axes_of(each.layout);
  const auto piece = [&](int64_t rank) {
    std::vector<int64_t> where =
        coordinates(trainer.team().mesh, number_in(trainer.team(), rank));
    for (size_t i = 0; i < where.size(); ++i) {
      const std::string& axis = trainer.team().mesh.axes[i].name;
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
        where[i] = 0;
      }
    }
    return where;
  };
  const std::vector<int64_t> mine = piece(trainer.options().rank);
  int64_t number = 0;
  int64_t count = 0;
  for (const int64_t rank : kept->holding.ranks) {
    if (piece(rank) == mine) {
      number += rank < trainer.options().rank ? 1 : 0;
      ++count;
    }
  }
  return {number, count};
}

// Under which of its names a tensor is there.
std::optional<std::string> found_in(
    const TensorSource& source, const Input& input) {
  for (const std::string& name : input.keys) {
    if (source.has(name)) {
      return name;
    }
  }
  return std::nullopt;
}

// Reads into the tensor, however it lies in memory.
void read_into(
    TensorSource& source,
    const std::string& name,
    const Box& box,
    const at::Tensor& into) {
  at::Tensor rows =
      into.is_contiguous() ? into : at::empty(into.sizes(), into.scalar_type());
  source.read(
      name,
      box,
      {static_cast<std::byte*>(rows.mutable_data_ptr()), rows.nbytes()});
  if (!rows.is_same(into)) {
    into.copy_(rows);
  }
}

// Of another floating type than the model's: converted.
void read_converted(
    TensorSource& source,
    const std::string& name,
    const Box& box,
    const at::Tensor& into) {
  at::Tensor rows =
      at::empty(into.sizes(), scalar_type_of(source.type(name).dtype));
  read_into(source, name, box, rows);
  into.copy_(rows);
}

}  // namespace

std::string fingerprint(const Trainer& trainer) {
  std::vector<std::string> lines;
  for (const Trainer::Kept& each : trainer.kept()) {
    lines.push_back(
        cat(resident_name(each.input), " ", print(each.holding.whole), "\n"));
  }
  std::sort(lines.begin(), lines.end());
  const std::string text = join(lines, "");
  return cat(
      lines.size(),
      " tensors ",
      checksum_of(
          {reinterpret_cast<const std::byte*>(text.data()), text.size()}));
}

std::vector<OwnedPiece> pieces_to_save(const Trainer& trainer) {
  std::vector<OwnedPiece> pieces;
  int64_t turn = 0;
  for (const Trainer::Resident& each : trainer.residents()) {
    const auto [number, count] = replica(trainer, each);
    if (turn++ % count != number) {
      continue;
    }
    for (HeldBox& one : boxes_of(trainer, each, each.tensor)) {
      const at::Tensor rows = one.held.contiguous();
      OwnedPiece piece;
      piece.name = resident_name(each.input);
      piece.whole = whole_type(trainer, each);
      piece.box = std::move(one.box);
      piece.bytes.resize(rows.nbytes());
      std::memcpy(piece.bytes.data(), rows.const_data_ptr(), rows.nbytes());
      pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

void load_state(Trainer& trainer, TensorSource& source) {
  for (const Trainer::Resident& each : trainer.residents()) {
    const std::string name = resident_name(each.input);
    const TensorType wanted = whole_type(trainer, each);
    WEFT_CHECK_USER(
        source.type(name) == wanted,
        source.path(),
        ": ",
        name,
        " is ",
        print(source.type(name)),
        ", and the model's is ",
        print(wanted));
    for (const HeldBox& one : boxes_of(trainer, each, each.tensor)) {
      read_into(source, name, one.box, one.held);
    }
  }
}

void load_parameters(Trainer& trainer, TensorSource& source) {
  std::set<std::string> used;
  std::vector<std::string> missing;
  for (const Trainer::Kept& each : trainer.kept()) {
    if (each.input.kind == InputKind::State) {
      continue;
    }
    used.insert(each.input.keys.begin(), each.input.keys.end());
    // Buffers are often left out of files: they follow from the model.
    if (each.input.kind == InputKind::Parameter &&
        !found_in(source, each.input)) {
      missing.push_back(each.input.keys.front());
    }
  }
  for (const Trainer::Resident& each : trainer.residents()) {
    const std::optional<std::string> found = found_in(source, each.input);
    if (each.input.kind == InputKind::State || !found) {
      continue;
    }
    const TensorType wanted = whole_type(trainer, each);
    WEFT_CHECK_USER(
        source.type(*found).sizes == wanted.sizes,
        source.path(),
        ": ",
        *found,
        " is ",
        print(source.type(*found)),
        ", and the model's is ",
        print(wanted));
    for (const HeldBox& one : boxes_of(trainer, each, each.tensor)) {
      read_converted(source, *found, one.box, one.held);
    }
  }
  WEFT_CHECK_USER(
      missing.empty(),
      source.path(),
      " has no ",
      join(missing, ", "),
      "; is it of this model?");
  std::vector<std::string> extra = source.names();
  std::erase_if(
      extra, [&](const std::string& name) { return used.contains(name); });
  WEFT_CHECK_USER(
      extra.empty(),
      source.path(),
      " holds ",
      join(extra, ", "),
      ", which the model does not have");
}

void initialise_parameters(
    Trainer& trainer, const Graph& graph, TensorSource* except) {
  const Initialiser init(graph, trainer.options().seed);
  for (const Trainer::Resident& each : trainer.residents()) {
    if (each.input.kind == InputKind::State ||
        (except != nullptr && found_in(*except, each.input))) {
      continue;
    }
    const Dims sizes = whole_type(trainer, each).sizes;
    for (const HeldBox& one : boxes_of(trainer, each, each.tensor)) {
      std::vector<Piece> box;
      for (size_t dim = 0; dim < sizes.size(); ++dim) {
        box.push_back({one.box.start[dim], one.box.size[dim], sizes[dim]});
      }
      init.fill(
          each.input.kind == InputKind::Parameter ? OutputKind::Parameter
                                                  : OutputKind::Buffer,
          each.input.keys.front(),
          box,
          one.held);
    }
  }
}

at::Tensor whole_tensor(
    const Trainer& trainer, Communicator* everybody, const std::string& name) {
  const Trainer::Kept* kept = trainer.find_kept(name);
  WEFT_CHECK_USER(kept != nullptr, "the steps have no ", name);
  const Trainer::Resident* mine = trainer.find_resident(name);
  const at::Tensor piece = mine == nullptr ? at::Tensor() : mine->tensor;
  if (is_everywhere(kept->holding)) {
    return piece;
  }
  WEFT_CHECK(everybody != nullptr, "a piece of ", name, " on one rank");
  return gather_whole(*everybody, piece, kept->holding);
}

}  // namespace weft
