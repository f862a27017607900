// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/async_saver.h"

#include "base/error.h"
#include "checkpoint/checkpoint_writer.h"

#include <utility>

namespace weft {
namespace {

std::string write_owned(
    const std::string& folder,
    int64_t step,
    int64_t rank,
    const std::vector<OwnedPiece>& owned) {
  std::vector<TensorPiece> pieces;
  for (const OwnedPiece& piece : owned) {
    pieces.push_back({piece.name, piece.whole, piece.box, piece.bytes});
  }
  return write_shard(folder, step, rank, pieces);
}

}  // namespace

AsyncSaver::~AsyncSaver() {
  if (thread_.joinable()) {
    thread_.join();
  }
}

void AsyncSaver::wait() {
  if (thread_.joinable()) {
    thread_.join();
  }
  if (const std::exception_ptr error = std::exchange(error_, nullptr)) {
    std::rethrow_exception(error);
  }
}

void AsyncSaver::start(
    std::string folder,
    int64_t step,
    int64_t rank,
    std::vector<OwnedPiece> pieces,
    std::function<void(std::string part)> after) {
  wait();
  running_ = true;
  thread_ = std::thread([this,
                         step,
                         rank,
                         folder = std::move(folder),
                         pieces = std::move(pieces),
                         after = std::move(after)] {
    try {
      std::string part = write_owned(folder, step, rank, pieces);
      if (after) {
        after(std::move(part));
      }
    } catch (const UserError&) {
      error_ = std::current_exception();
    } catch (const std::exception& error) {
      error_ = std::make_exception_ptr(UserError(
          cat("cannot save the checkpoint of step ",
              step,
              " in ",
              folder,
              ": ",
              error.what())));
    }
    running_ = false;
  });
}

}  // namespace weft
