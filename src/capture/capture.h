// SPDX-License-Identifier: Apache-2.0
// PyTorch -> Graph. The sequence that every front end follows:
//
//   Capture capture("gpt", RecordMode::Hollow);
//   { auto r = capture.record_init();  build the model and the batch }
//   capture.begin_step(parameters, buffers, batch);
//   { auto r = capture.record_step();
//     loss = model(batch);  capture.begin_backward();  loss.backward(); }
//   Graph graph = capture.finish(loss, optimizer);
//
// Building is optional: a live model gives its tensors to begin_step and its
// Graph has no `init`.
#pragma once

#include "capture/optimizer.h"
#include "capture/recorder.h"
#include "graph/graph.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

class Capture {
 public:
  // `earlier` is a capture of the same step just before this one, which found
  // lasting generators.
  Capture(std::string name, RecordMode mode, const Capture* earlier = nullptr);

  // Whether the step has drawn random numbers from a generator of the script
  // that outlives it: only another capture, made after this one, tells whether
  // the step seeds it anew. To be asked when the step's Python has ended.
  bool has_lasting_generators() const;

  // Records the calls of this thread into `init` / `step` while it lives.
  std::unique_ptr<Recording> record_init();
  std::unique_ptr<Recording> record_step();

  // Every name of every parameter and buffer (a tied one appears under each of
  // its names), and the batch. `saved` is the model's state_dict, which may
  // lack some of them or have other names for them; without it, all of them are
  // saved under their names.
  void begin_step(
      const std::vector<NamedTensor>& parameters,
      const std::vector<NamedTensor>& buffers,
      const std::vector<NamedTensor>& batch,
      const std::optional<std::vector<NamedTensor>>& saved = std::nullopt);
  void begin_backward();

  // The buffer holds `now` after the step: for a step that is functional, where
  // nothing writes into the buffer itself.
  void replace_buffer(const std::string& name, const at::Tensor& now);

  // What a tensor that outlives the step is to it.
  struct Left {
    // The step computed it.
    bool is_made = false;
    // It follows from constants and from buffers that the step leaves as they
    // are: a function that makes it again, and what that takes.
    std::optional<Function> again;
    std::vector<at::Tensor> known;
  };
  Left left(const at::Tensor& tensor);
  // Whether the step has read it as a constant.
  bool is_constant(const at::Tensor& tensor) const;

  // A tensor of the batch that the step has written into.
  struct WrittenBatch {
    std::string name;
    // Makes what is in it afterwards; none where that takes more than the batch
    // and constants. Of each of its inputs, the constant, or the name in the
    // batch.
    std::optional<Function> again;
    std::vector<std::pair<std::string, at::Tensor>> inputs;
  };
  // Known after `finish`.
  const std::vector<WrittenBatch>& written_batch() const { return written_; }

  // Call once, with the recording off. `modules` in the order of the model.
  // Throws UserError when `loss` is not a scalar that the step computed, the
  // optimizer is not supported, or the step writes where nothing is kept.
  Graph finish(
      const at::Tensor& loss,
      const std::optional<OptimizerDescription>& optimizer,
      std::vector<Module> modules);

  Recorder& recorder() { return *recorder_; }

 private:
  struct Held {
    std::vector<std::string> names;
    at::Tensor tensor;
    ValueId value;
  };

  std::vector<Held> bind_all(
      const std::vector<NamedTensor>& tensors,
      InputKind kind,
      const std::optional<std::vector<NamedTensor>>& saved);
  void find_written_batch();
  void return_init(const std::vector<Held>& held, OutputKind kind);
  // What is known of an input before the step; undefined where nothing is.
  at::Tensor known_tensor(const Input& input) const;

  std::string name_;
  std::shared_ptr<Recorder> recorder_;
  std::vector<Held> parameters_;
  std::vector<Held> buffers_;
  std::vector<Held> batch_;
  std::vector<WrittenBatch> written_;
};

// Drops the nodes that nothing returned depends on, but keeps every random node
// before the last one that is needed.
void drop_unused_nodes(Function& function);

}  // namespace weft
