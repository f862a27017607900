// SPDX-License-Identifier: Apache-2.0
#include "aten/types.h"
#include "base/error.h"
#include "binding.h"
#include "program/live_bytes.h"
#include "train/export_model.h"
#include "trainer_handle.h"

#include <ATen/ops/from_blob.h>

#include <pybind11/functional.h>
#include <pybind11/stl.h>

namespace py = pybind11;

namespace weft {
namespace {

// Of a batch whose tensors have these sizes, by key.
using CaptureFunction = std::function<Graph(
    bool is_evaluation, const std::map<std::string, Dims>& sizes)>;

std::map<std::string, Dims> sizes_of(const BatchTypes& types) {
  std::map<std::string, Dims> sizes;
  for (const BatchType& each : types) {
    sizes.emplace(each.key, each.type.sizes);
  }
  return sizes;
}

BatchOptions batch_options(const py::dict& options) {
  BatchOptions chosen;
  const auto word = options["batch"].cast<std::string>();
  WEFT_CHECK_USER(
      word == "global" || word == "local",
      "batch is \"global\" (every rank gives the whole batch) or \"local\" "
      "(every rank gives its part of it), not ",
      quote(word));
  chosen.is_local = word == "local";
  chosen.pads = options["pad"].cast<std::map<std::string, double>>();
  WEFT_CHECK_USER(
      chosen.is_local || chosen.pads.empty(),
      "pad makes the parts of a batch equally long: it goes with "
      "batch=\"local\"");
  return chosen;
}

std::shared_ptr<TrainerHandle> make_trainer(
    const CaptureFunction& capture, const py::dict& options) {
  TrainerHandleOptions chosen;
  chosen.plan = options["plan"].cast<std::string>();
  chosen.plan_source = options["plan_source"].cast<std::string>();
  chosen.parallel = options["parallel"].cast<std::string>();
  chosen.trainer.seed = options["seed"].cast<uint64_t>();
  chosen.trainer.budget_bytes = options["budget_bytes"].cast<int64_t>();
  chosen.trainer.clip_norm = options["clip_norm"].cast<double>();
  chosen.trainer.bad_loss =
      parse_bad_loss(options["bad_loss"].cast<std::string>());
  chosen.trainer.accumulate = options["accumulate"].cast<int64_t>();
  chosen.trainer.keep_gradients = options["keep_gradients"].cast<bool>();
  WEFT_CHECK_USER(
      chosen.trainer.accumulate >= 1,
      "accumulate is the number of batches that make one step, not ",
      chosen.trainer.accumulate);
  WEFT_CHECK_USER(
      chosen.trainer.clip_norm >= 0.0,
      "clip_norm is the largest norm that gradients may have, or 0 for any, "
      "not ",
      chosen.trainer.clip_norm);
  chosen.batch = batch_options(options);
  chosen.precision = options["precision"].cast<std::string>();
  const auto scale = options["loss_scale"].cast<std::optional<double>>();
  if (scale || options["precision"].cast<std::string>() == "f16-mixed") {
    chosen.loss_scale.emplace();
    chosen.loss_scale->initial = scale.value_or(chosen.loss_scale->initial);
  }
  GraphSource graphs = [capture](const BatchTypes& types, StepKind kind) {
    const py::gil_scoped_acquire acquire;
    return capture(kind == StepKind::Evaluate, sizes_of(types));
  };
  const py::gil_scoped_release release;
  return std::make_shared<TrainerHandle>(std::move(graphs), std::move(chosen));
}

// The same memory, which lives as long as any such tensor: a model goes on
// after its trainer is gone.
at::Tensor keeping(
    const std::shared_ptr<TrainerHandle>& owner, const at::Tensor& tensor) {
  return at::from_blob(
      tensor.mutable_data_ptr(),
      tensor.sizes(),
      tensor.strides(),
      [owner](void*) {},
      tensor.options());
}

// What the steps keep, the same list on every rank: (kind, names, the tensor if
// this rank has all of it, whether all ranks do).
py::list kept(const std::shared_ptr<TrainerHandle>& self) {
  py::list out;
  const Trainer& trainer = self->trainer();
  for (const Trainer::Kept& each : trainer.kept()) {
    const Trainer::Resident* mine =
        trainer.find_resident(resident_name(each.input));
    const bool is_mine =
        mine != nullptr && is_whole(mine->layout, trainer.team().mesh);
    out.append(py::make_tuple(
        std::string(name(each.input.kind)),
        each.input.keys,
        is_mine ? std::optional(keeping(self, mine->tensor)) : std::nullopt,
        is_everywhere(each.holding)));
  }
  return out;
}

void bind_results(py::module_& module) {
  py::class_<StepResult>(module, "StepResult")
      .def_readonly("loss", &StepResult::loss)
      .def_readonly("gradient_norm", &StepResult::gradient_norm)
      .def_readonly("is_skipped", &StepResult::is_skipped)
      .def_readonly("is_update", &StepResult::is_update);
}

}  // namespace

void bind_trainer(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  bind_results(module);
  module.def("keep_description", &keep_description);
  py::class_<TrainerHandle, std::shared_ptr<TrainerHandle>>(module, "Trainer")
      .def(py::init(&make_trainer), py::arg("capture"), py::arg("options"))
      .def_property_readonly(
          "rank",
          [](const TrainerHandle& self) {
            return self.trainer().options().rank;
          })
      .def_property_readonly(
          "ranks",
          [](const TrainerHandle& self) {
            return self.trainer().options().ranks;
          })
      .def_property_readonly("data_ranks", &TrainerHandle::data_ranks)
      .def_property_readonly("data_rank", &TrainerHandle::data_rank)
      .def("whole_batch", &TrainerHandle::whole_batch, Release())
      .def("find_parts", &TrainerHandle::find_parts, Release())
      // The sizes of the whole batch by key.
      .def(
          "agree",
          [](TrainerHandle& self,
             const NamedTensors& batch,
             bool is_evaluation,
             bool is_example) {
            return sizes_of(self.agree(
                batch,
                is_evaluation ? StepKind::Evaluate : StepKind::Train,
                is_example));
          },
          Release())
      .def(
          "prepare",
          [](TrainerHandle& self,
             const NamedTensors& batch,
             bool is_evaluation) {
            self.prepare(
                batch, is_evaluation ? StepKind::Evaluate : StepKind::Train);
          },
          Release())
      .def(
          "select",
          [](TrainerHandle& self, const std::string& state) {
            self.trainer().select(state);
          })
      .def(
          "forget",
          [](TrainerHandle& self, const std::string& state) {
            self.trainer().forget(state);
          })
      .def("train", &TrainerHandle::train, Release())
      .def("evaluate", &TrainerHandle::evaluate, Release())
      .def("gradients", &TrainerHandle::gradients, Release())
      .def_property_readonly("loss_scale", &TrainerHandle::loss_scale)
      .def_property_readonly(
          "kept_count",
          [](const TrainerHandle& self) {
            return self.trainer().kept().size();
          })
      .def("kept", &kept)
      .def("names_of_first", &TrainerHandle::names_of_first, Release())
      .def("fill", &TrainerHandle::fill, Release())
      .def("whole", &TrainerHandle::whole, Release())
      .def("save", &TrainerHandle::save, Release())
      // (step or None, extra, notes) of what was there.
      .def(
          "load",
          [](TrainerHandle& self, const std::string& path) {
            const TrainerHandle::Loaded loaded = self.load(path);
            return std::make_tuple(loaded.step, loaded.extra, loaded.notes);
          },
          Release())
      .def_property_readonly(
          "used_bytes",
          [](const TrainerHandle& self) { return self.trainer().used_bytes(); })
      .def(
          "program",
          [](TrainerHandle& self, const NamedTensors& batch) {
            return print(self.prepare(batch, StepKind::Train).program);
          },
          Release())
      // One more training step, timed, with the learning rates of the last one:
      // this rank's events as (stream, start seconds, end seconds, label).
      .def(
          "timeline",
          [](TrainerHandle& self, const NamedTensors& batch, int64_t number) {
            const Timeline timeline = self.timed(batch, number);
            std::vector<std::tuple<std::string, double, double, std::string>>
                events;
            for (const Event& event : timeline.events) {
              events.emplace_back(
                  std::string(name(event.stream)),
                  event.start_seconds,
                  event.end_seconds,
                  event.label);
            }
            return events;
          },
          Release())
      // (predicted, used, overflow bytes and where) of the step for such a
      // batch.
      .def(
          "memory",
          [](TrainerHandle& self, const NamedTensors& batch) {
            const Executor& executor =
                *self.prepare(batch, StepKind::Train).executor;
            return std::make_tuple(
                peak_bytes(executor.block()),
                executor.used_bytes(),
                executor.overflow_bytes(),
                executor.overflow());
          },
          Release());
}

}  // namespace weft
