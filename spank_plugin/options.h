// The options of the plugin: what users may say with --fed-* and administrators in plugstack.conf.
//
// Parsing and validation only: no Slurm headers, no state. Every check returns nothing when all is
// well and one complete sentence (what, which value, why, cure) when it is not. The same text
// checks run at submit time and again on the compute node, because whatever travels in a job's
// environment can be written by the job's owner. Only submit-time checks look at files, and they do
// so as the user. All functions are free of side effects and may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fedqueue::plugin {

enum class OptionId { run, server, facility, kit, config };
inline constexpr std::size_t option_count = 5;

// The one table of everything an option is called.
struct OptionText {
  OptionId id;
  const char* name;         // after the two hyphens
  const char* argument;     // shown in --help
  const char* help;         // one line in --help
  const char* environment;  // what a user may set instead
  const char* carrier;      // under what name its value travels to the node
  const char* exported;     // what the job's tasks find
};

extern const std::array<OptionText, option_count> option_texts;

[[nodiscard]] const OptionText& text_of(OptionId id);

// One job's values, by OptionId; empty means "not given".
class Options {
 public:
  [[nodiscard]] const std::string& at(OptionId id) const {
    return values_[static_cast<std::size_t>(id)];
  }
  void set(OptionId id, std::string value) {
    values_[static_cast<std::size_t>(id)] = std::move(value);
  }
  [[nodiscard]] bool has(OptionId id) const { return !at(id).empty(); }
  // True when at least one option is given.
  [[nodiscard]] bool any() const;

 private:
  std::array<std::string, option_count> values_;
};

// What plugstack.conf says after the plugin's path.
struct SiteSettings {
  bool record = true;                   // ask the controller once per opted-in job
  std::string facility;                 // used when the user names none
  std::string server;                   // likewise
  std::string min_poll_s;               // lower bound for anything that polls, exported as it is
  std::vector<std::string> complaints;  // sentences about arguments that were not understood
};

using Problem = std::optional<std::string>;

// Never fails: an argument that is not understood becomes a complaint, the others count.
[[nodiscard]] SiteSettings parse_site_settings(int count, const char* const* arguments);

// Checks what can be told from the text alone. `value` may hold anything, also control characters.
[[nodiscard]] Problem check_text(OptionId id, std::string_view value);

// Checks a whole set: every text, and that no option comes without --fed-run.
[[nodiscard]] Problem check_texts(const Options& options);

// Checks that the kit is a readable directory and the configuration a readable file, and makes both
// paths absolute, so that they mean the same in the job whatever its working directory. `~/` at the
// beginning is the user's home, because neither #SBATCH lines nor --name=~/x are expanded by a
// shell.
[[nodiscard]] Problem resolve_paths(Options& options);

// The value as it may appear in a message: no control characters, at most 80 bytes.
[[nodiscard]] std::string printable(std::string_view value);

}  // namespace fedqueue::plugin
