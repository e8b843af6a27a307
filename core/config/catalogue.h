// The names a program knows: its own options, and those of the other programs of the family.
//
// Not thread-safe; refers to the options and names it is made from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/option.h"

namespace fedqueue {

class Catalogue {
 public:
  Catalogue(const std::vector<OptionSpec>& options, const std::vector<std::string>& foreign_names)
      : options_(options), foreign_names_(foreign_names) {}

  [[nodiscard]] const std::vector<OptionSpec>& options() const { return options_; }

  // The program's own option of that name; null if there is none.
  [[nodiscard]] const OptionSpec* find(std::string_view name) const;

  [[nodiscard]] bool is_foreign(std::string_view name) const;

  // The known name that was most likely meant, or empty. The names of options that stand on the
  // command line alone are left out for files.
  [[nodiscard]] std::string meant(std::string_view name, bool on_command_line) const;

  // The option's name for a FEDQUEUE_ variable's, whether or not there is such an option:
  // FEDQUEUE_FACILITY__SITE_A__SAMPLES → facility.site-a.samples.
  [[nodiscard]] std::string name_of_variable(std::string_view variable) const;

  // The variable that was most likely meant by an unknown one, or empty.
  [[nodiscard]] std::string meant_variable(const std::string& variable) const;

 private:
  const std::vector<OptionSpec>& options_;
  const std::vector<std::string>& foreign_names_;
};

}  // namespace fedqueue
