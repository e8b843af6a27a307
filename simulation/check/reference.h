// What a round must publish, computed the plainest way: in double, element by element, by the
// formulas alone. None of the product's arithmetic is used.
//
// Thread safety: pure functions; a ReferenceServer is used by one thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fedserver/engine/events.h"
#include "simulation/world/bytes.h"

namespace fedqueue::simulation {

// HeLoCo corrects differently on the two sides of an angle. Where the angle is within rounding of
// it, either side is right.
enum class Side { own, other };

class ReferenceServer {
 public:
  // With control variates they are the second half of every model and update.
  explicit ReferenceServer(bool with_controls = false) : with_controls_(with_controls) {}

  // The next model from the journalled set. `current`, `updates` and `bases` are as stored. Nothing
  // is remembered before accept().
  [[nodiscard]] std::vector<double> next(const ReduceStarted& plan, const Bytes& current,
                                         const std::vector<SharedBytes>& updates,
                                         const std::vector<SharedBytes>& bases,
                                         Side side = Side::own);
  // Whether the last next() took a decision that rounding may tip.
  [[nodiscard]] bool near_an_edge() const { return near_an_edge_; }
  // The model of the last next() was published: so is what its step remembers.
  void accept();

 private:
  struct State {
    std::vector<double> first;
    std::vector<double> second;
    std::int64_t pushes = 0;
  };

  [[nodiscard]] std::vector<double> corrected(const std::vector<double>& delta, Side side);

  bool with_controls_;
  bool near_an_edge_ = false;
  State state_;
  State next_state_;
};

// Empty, or what differs by more than the rounding of single-precision sums.
// REQUIRES: of one length.
[[nodiscard]] std::string difference(std::span<const double> expected,
                                     std::span<const float> published, double scale);

}  // namespace fedqueue::simulation
