// What a round must publish, computed the plainest way: in double, element by element, by the
// formulas alone. None of the product's arithmetic is used.
//
// Thread safety: pure functions; a ReferenceServer is used by one thread.
#pragma once

#include <string>
#include <vector>

#include "fedserver/engine/events.h"
#include "simulation/world/bytes.h"

namespace fedqueue::simulation {

class ReferenceServer {
 public:
  // The next model from the journalled set. `current`, `updates` and `bases` are as stored. Nothing
  // is remembered before accept().
  [[nodiscard]] std::vector<double> next(const ReduceStarted& plan, const Bytes& current,
                                         const std::vector<SharedBytes>& updates,
                                         const std::vector<SharedBytes>& bases);
  // The model of the last next() was published: so is what its step remembers.
  void accept();

 private:
  struct State {
    std::vector<double> first;
    std::vector<double> second;
    std::int64_t pushes = 0;
  };

  State state_;
  State next_state_;
};

// Empty, or what differs by more than the rounding of single-precision sums.
[[nodiscard]] std::string difference(const std::vector<double>& expected, const Bytes& published,
                                     double scale);

}  // namespace fedqueue::simulation
