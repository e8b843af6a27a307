#include "core/base/points.h"

namespace fedqueue::points {
namespace {

thread_local MarkCounts counts{};
thread_local Bug planted_bug = Bug::none;

struct Words {
  std::string_view name;
  std::string_view meaning;
};

#define FEDQUEUE_WORDS(name, text) Words{#name, text},
constexpr Words mark_words[] = {FEDQUEUE_MARKS(FEDQUEUE_WORDS)};
constexpr Words bug_words[] = {Words{"none", ""}, FEDQUEUE_PLANTED_BUGS(FEDQUEUE_WORDS)};
#undef FEDQUEUE_WORDS

static_assert(std::size(mark_words) == mark_count);
static_assert(std::size(bug_words) == bug_count);

}  // namespace

const MarkCounts& marks() { return counts; }
void reset_marks() { counts = {}; }
void reach(Mark mark) { ++counts[static_cast<std::size_t>(mark)]; }

void plant(Bug bug) { planted_bug = bug; }
bool planted(Bug bug) { return planted_bug == bug; }

std::string_view name_of(Mark mark) { return mark_words[static_cast<std::size_t>(mark)].name; }
std::string_view meaning_of(Mark mark) {
  return mark_words[static_cast<std::size_t>(mark)].meaning;
}
std::string_view name_of(Bug bug) { return bug_words[static_cast<std::size_t>(bug)].name; }
std::string_view meaning_of(Bug bug) { return bug_words[static_cast<std::size_t>(bug)].meaning; }

}  // namespace fedqueue::points
