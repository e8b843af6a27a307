// What the facilities of a simulated federation learn, and how good a model is: real training with
// LibTorch (fedsim), or stand-ins without it.
//
// Models and updates are the data section of a safetensors file laid out by manifest().
//
// Not thread-safe; one learner belongs to one simulated world.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "core/base/result.h"
#include "core/tensor/manifest.h"
#include "simulation/world/bytes.h"

namespace fedqueue::simulation {

struct Lesson {
  int facility = 0;
  std::int64_t steps = 0;
  double learning_rate = 0;
  std::map<std::string, std::string> training;  // the run's settings for trainers
  // SCAFFOLD: is added to each gradient, in the order of tensor::controls_of(manifest()). Empty:
  // nothing is.
  std::span<const float> correction;
};

struct Learned {
  Bytes update;
  double loss = 0;
  std::int64_t samples = 0;  // seen
};

struct Grade {
  double accuracy = 0;
  double loss = 0;
};

class Learner {
 public:
  virtual ~Learner() = default;
  [[nodiscard]] virtual const tensor::Manifest& manifest() const = 0;
  [[nodiscard]] virtual Bytes initial() const = 0;
  [[nodiscard]] virtual std::int64_t samples(int facility) const = 0;
  virtual Result<Learned> train(std::span<const std::byte> base, const Lesson& lesson) = 0;
  // The server took an update of this facility, for now or for good.
  virtual void taken(int /*facility*/, std::span<const std::byte> /*update*/) {}
  virtual Result<Grade> evaluate(std::span<const std::byte> model) = 0;
};

}  // namespace fedqueue::simulation
