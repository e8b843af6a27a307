// The life of a process that a simulated world can end at any point of its code.
//
// A port of that process (journal, disk) ends it by die(): the process is marked dead first, so
// that whatever its destructors still try has no effect, and then the exception unwinds to whoever
// runs the process. The next life begins with revive().
//
// Not thread-safe.
#pragma once

#include <string>

namespace fedqueue::simulation {

// Unwinds a simulated process. Not an error: nothing catches it but the world.
struct ProcessDied {
  std::string where;
};

class Mortal {
 public:
  [[nodiscard]] bool dead() const { return dead_; }
  void end() { dead_ = true; }
  void revive() { dead_ = false; }
  [[noreturn]] void die(std::string where) {
    dead_ = true;
    throw ProcessDied{std::move(where)};
  }

 private:
  bool dead_ = false;
};

}  // namespace fedqueue::simulation
