// SPDX-License-Identifier: Apache-2.0
#include "aten/types.h"
#include "base/error.h"
#include "binding.h"
#include "execute/communicator.h"
#include "plan/data_parallel.h"
#include "program/live_bytes.h"
#include "train/trainer.h"

#include <optional>
#include <pybind11/functional.h>

namespace py = pybind11;

namespace weft {
namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A Trainer with the world that it talks through.
struct TrainerHandle {
  std::unique_ptr<World> world;
  std::unique_ptr<Trainer> trainer;
};

BatchTypes types_of(const NamedTensors& batch) {
  BatchTypes types;
  for (const auto& [key, tensor] : batch) {
    types.push_back(
        {key, make_type(dtype_of(tensor.scalar_type()), tensor.sizes().vec())});
  }
  return types;
}

std::vector<at::Tensor> tensors_of(const NamedTensors& batch) {
  std::vector<at::Tensor> tensors;
  for (const auto& [key, tensor] : batch) {
    tensors.push_back(tensor);
  }
  return tensors;
}

BadLoss bad_loss_of(const std::string& word) {
  for (const auto& [name, value] :
       {std::pair{"stop", BadLoss::Stop},
        std::pair{"skip", BadLoss::Skip},
        std::pair{"go-on", BadLoss::GoOn}}) {
    if (word == name) {
      return value;
    }
  }
  throw UserError(cat("bad_loss is stop, skip or go-on, not ", quote(word)));
}

std::unique_ptr<TrainerHandle> make_trainer(
    const std::function<Graph(const NamedTensors&, bool)>& capture,
    const std::string& plan,
    const py::dict& options) {
  TrainerOptions chosen;
  auto handle = std::make_unique<TrainerHandle>();
  if (const auto rendezvous = rendezvous_from_environment();
      rendezvous && rendezvous->size > 1) {
    chosen.rank = rendezvous->rank;
    chosen.ranks = rendezvous->size;
    const py::gil_scoped_release release;
    handle->world = connect(*rendezvous);
  }
  chosen.seed = options["seed"].cast<uint64_t>();
  chosen.budget_bytes = options["budget_bytes"].cast<int64_t>();
  chosen.clip_norm = options["clip_norm"].cast<double>();
  chosen.scale_loss = options["scale_loss"].cast<bool>();
  chosen.bad_loss = bad_loss_of(options["bad_loss"].cast<std::string>());
  chosen.accumulate = options["accumulate"].cast<int64_t>();
  chosen.keep_gradients = options["keep_gradients"].cast<bool>();
  GraphSource graphs = [capture](const BatchTypes& types, StepKind kind) {
    const py::gil_scoped_acquire acquire;
    NamedTensors batch;
    for (const BatchType& each : types) {
      batch.emplace_back(
          each.key,
          at::empty(each.type.sizes, scalar_type_of(each.type.dtype)));
    }
    return capture(batch, kind == StepKind::Evaluate);
  };
  PlanSource plans = [plan, ranks = chosen.ranks](const Graph& graph) {
    return plan.empty() ? data_parallel(graph, ranks)
                        : parse_plan(plan, "plan");
  };
  handle->trainer = std::make_unique<Trainer>(
      std::move(graphs),
      std::move(plans),
      std::move(chosen),
      handle->world.get());
  if (handle->world) {
    handle->world->watch(
        [trainer = handle->trainer.get()] { return trainer->doing(); });
  }
  return handle;
}

}  // namespace

void bind_trainer(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<StepResult>(module, "StepResult")
      .def_readonly("loss", &StepResult::loss)
      .def_readonly("gradient_norm", &StepResult::gradient_norm)
      .def_readonly("is_skipped", &StepResult::is_skipped);
  py::class_<TrainerHandle>(module, "Trainer")
      .def(
          py::init(&make_trainer),
          py::arg("capture"),
          py::arg("plan"),
          py::arg("options"))
      .def_property_readonly(
          "rank",
          [](const TrainerHandle& self) {
            return self.trainer->options().rank;
          })
      .def_property_readonly(
          "ranks",
          [](const TrainerHandle& self) {
            return self.trainer->options().ranks;
          })
      .def(
          "prepare",
          [](TrainerHandle& self, const NamedTensors& batch, bool evaluation) {
            self.trainer->prepare(
                types_of(batch),
                evaluation ? StepKind::Evaluate : StepKind::Train);
          },
          Release())
      .def(
          "train",
          [](TrainerHandle& self,
             const NamedTensors& batch,
             int64_t number,
             const std::vector<double>& learning_rates,
             double loss_scale) {
            PreparedStep& step =
                self.trainer->prepare(types_of(batch), StepKind::Train);
            self.trainer->set_batch(step, tensors_of(batch));
            return self.trainer->train(
                step, number, learning_rates, loss_scale);
          },
          Release())
      .def(
          "evaluate",
          [](TrainerHandle& self, const NamedTensors& batch, int64_t number) {
            PreparedStep& step =
                self.trainer->prepare(types_of(batch), StepKind::Evaluate);
            self.trainer->set_batch(step, tensors_of(batch));
            return self.trainer->evaluate(step, number);
          },
          Release())
      // Where the rank's pieces lie: (kind, names, tensor).
      .def(
          "residents",
          [](const TrainerHandle& self) {
            std::vector<
                std::tuple<std::string, std::vector<std::string>, at::Tensor>>
                out;
            for (const Trainer::Resident& each : self.trainer->residents()) {
              out.emplace_back(
                  std::string(name(each.input.kind)),
                  each.input.keys,
                  each.tensor);
            }
            return out;
          })
      .def_property_readonly(
          "used_bytes",
          [](const TrainerHandle& self) { return self.trainer->used_bytes(); })
      .def(
          "program",
          [](TrainerHandle& self, const NamedTensors& batch) {
            return print(self.trainer->prepare(types_of(batch), StepKind::Train)
                             .program);
          })
      // One more training step, timed, with the learning rates of the last one:
      // this rank's events as (stream, start seconds, end seconds, label).
      .def(
          "timeline",
          [](TrainerHandle& self, const NamedTensors& batch, int64_t number) {
            Timeline timeline;
            {
              const py::gil_scoped_release release;
              PreparedStep& step =
                  self.trainer->prepare(types_of(batch), StepKind::Train);
              self.trainer->set_batch(step, tensors_of(batch));
              timeline = step.executor->run_timed(number);
            }
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
          })
      // (predicted, used, overflow bytes and where) of the step for such a
      // batch.
      .def("memory", [](TrainerHandle& self, const NamedTensors& batch) {
        const Executor& executor =
            *self.trainer->prepare(types_of(batch), StepKind::Train).executor;
        return std::make_tuple(
            peak_bytes(executor.block()),
            executor.used_bytes(),
            executor.overflow_bytes(),
            executor.overflow());
      });
}

}  // namespace weft
