// The real spank_fedqueue.so, loaded into a process that plays Slurm, context by context.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <memory>
#include <set>
#include <sstream>

#include "fake_slurm.h"

namespace {

using fake_slurm::Plugin;
using fake_slurm::state;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Environment = std::map<std::string, std::string>;

const std::vector<const char*> all_hooks = {
    "init",      "job_prolog",           "init_post_opt", "local_user_init",
    "user_init", "task_init_privileged", "task_init",     "task_post_fork",
    "task_exit", "job_epilog",           "slurmd_exit",   "exit"};

const std::vector<std::string> own_variables = {"FEDQUEUE_RUN",      "FEDQUEUE_SERVER",
                                                "FEDQUEUE_FACILITY", "FEDQUEUE_KIT",
                                                "FEDQUEUE_CONFIG",   "SLURM_SPANK_FED_RUN"};

constexpr std::uint32_t job_id = 10001;

class SpankPlugin : public ::testing::Test {
 protected:
  void SetUp() override {
    state() = fake_slurm::State();
    for (const std::string& name : own_variables) unsetenv(name.c_str());
    plugin_ = std::make_unique<Plugin>(PLUGIN_FILE);
    ASSERT_TRUE(plugin_->loaded());
  }

  void enter(spank_context_t context) {
    state().context = context;
    EXPECT_EQ(plugin_->hook("init"), 0);
  }

  // The first step of an opted-in job, as the controller and slurmstepd would present it.
  void enter_batch_step() {
    enter(S_CTX_REMOTE);
    state().items = {{S_JOB_ID, job_id},
                     {S_JOB_STEPID, SLURM_BATCH_SCRIPT},
                     {S_JOB_NODEID, 0},
                     {S_SLURM_RESTART_COUNT, 0}};
    state().job_environment = {{"SLURM_SPANK_FED_RUN", "demo"}, {"HOME", "/home/me"}};
    state().jobs = {job(job_id)};
  }

  static slurm_job_info_t job(std::uint32_t id) {
    slurm_job_info_t made = {};
    made.job_id = id;
    made.submit_time = 1000;
    made.eligible_time = 1010;
    made.start_time = 1070;
    made.time_limit = 5;
    return made;
  }

  int post_opt(std::vector<std::string> arguments = {}) {
    return plugin_->hook("init_post_opt", std::move(arguments));
  }

  static std::string exported(const char* name) {
    const auto found = state().job_environment.find(name);
    return found == state().job_environment.end() ? "(unset)" : found->second;
  }

  std::unique_ptr<Plugin> plugin_;
};

TEST_F(SpankPlugin, DoesNothingInAnyContextWithoutItsOptions) {
  const Environment before = {{"PATH", "/bin"}, {"FED_RUN", "mine"}};
  for (const auto context : {S_CTX_ALLOCATOR, S_CTX_LOCAL, S_CTX_REMOTE}) {
    state() = fake_slurm::State();
    state().context = context;
    state().job_environment = before;
    for (const char* hook : all_hooks) EXPECT_EQ(plugin_->hook(hook, {"nonsense"}), 0) << hook;
    EXPECT_EQ(state().job_environment, before);
    EXPECT_THAT(state().job_control, IsEmpty());
    EXPECT_THAT(state().errors, IsEmpty());
    EXPECT_EQ(state().controller_questions, 0);
  }
}

TEST_F(SpankPlugin, CallsNothingInSlurmdOrPrologContexts) {
  for (const auto context : {S_CTX_SLURMD, S_CTX_JOB_SCRIPT, S_CTX_ERROR}) {
    state() = fake_slurm::State();
    state().context = context;
    state().job_environment = {{"SLURM_SPANK_FED_RUN", "demo"}};
    for (const char* hook : all_hooks) EXPECT_EQ(plugin_->hook(hook), 0) << hook;
    EXPECT_EQ(state().calls, 0);
  }
}

TEST_F(SpankPlugin, CarriesOptionsFromTheCommandLineAndLastValueHolds) {
  enter(S_CTX_ALLOCATOR);
  for (const char* run : {"first", "second", "third"}) EXPECT_EQ(plugin_->give("fed-run", run), 0);
  plugin_->give("fed-server", "https://fed.example.org:8443");
  EXPECT_EQ(post_opt({"facility=site-a"}), 0);
  EXPECT_EQ(state().job_control, (Environment{{"FED_RUN", "third"},
                                              {"FED_SERVER", "https://fed.example.org:8443"},
                                              {"FED_FACILITY", "site-a"}}));
}

TEST_F(SpankPlugin, TakesTheEnvironmentInPlaceOfOptionsAndTheCommandLineWins) {
  setenv("FEDQUEUE_RUN", "from-environment", 1);
  setenv("FEDQUEUE_FACILITY", "site-b", 1);
  enter(S_CTX_ALLOCATOR);
  EXPECT_EQ(post_opt({"facility=site-a"}), 0);
  EXPECT_EQ(state().job_control["FED_RUN"], "from-environment");
  EXPECT_EQ(state().job_control["FED_FACILITY"], "site-b");
  plugin_->give("fed-run", "from-line");
  EXPECT_EQ(post_opt(), 0);
  EXPECT_EQ(state().job_control["FED_RUN"], "from-line");
}

TEST_F(SpankPlugin, IgnoresTheEnvironmentWithoutARun) {
  setenv("FEDQUEUE_SERVER", "not even a server", 1);
  enter(S_CTX_ALLOCATOR);
  EXPECT_EQ(post_opt(), 0);
  EXPECT_THAT(state().job_control, IsEmpty());
}

TEST_F(SpankPlugin, EndsTheUsersCommandOnABadOption) {
  enter(S_CTX_ALLOCATOR);
  plugin_->give("fed-run", "Bad Name");
  EXPECT_EXIT(post_opt(), ::testing::ExitedWithCode(1), "--fed-run: 'Bad Name' is not a name");
  state().context = S_CTX_LOCAL;
  EXPECT_EXIT(post_opt(), ::testing::ExitedWithCode(1), "--fed-run: 'Bad Name' is not a name");
}

TEST_F(SpankPlugin, EndsTheUsersCommandOnAnOptionWithoutRunOrValue) {
  enter(S_CTX_ALLOCATOR);
  plugin_->give("fed-server", "https://host");
  EXPECT_EXIT(post_opt(), ::testing::ExitedWithCode(1), "add --fed-run=NAME");
  plugin_->give("fed-run", "");
  EXPECT_EXIT(post_opt(), ::testing::ExitedWithCode(1), "is empty");
  plugin_->give("fed-run", "demo");
  EXPECT_EQ(post_opt(), 0) << "a later value repairs it";
}

TEST_F(SpankPlugin, LeavesTheJobsOwnOptionsAloneInItsSteps) {
  setenv("SLURM_SPANK_FED_RUN", "demo", 1);
  setenv("FEDQUEUE_RUN", "older", 1);
  enter(S_CTX_LOCAL);
  plugin_->give("fed-run", "demo");  // Slurm repeats the job's options in every srun
  EXPECT_EQ(post_opt(), 0);
  EXPECT_THAT(state().job_control, IsEmpty());
  plugin_->give("fed-server", "https://second");
  EXPECT_EQ(post_opt(), 0);
  EXPECT_EQ(state().job_control, (Environment{{"FED_SERVER", "https://second"}}));
}

TEST_F(SpankPlugin, HandsOptionsAndQueueRecordToTheTasks) {
  enter_batch_step();
  EXPECT_EQ(post_opt({"min_poll_s=60", "facility=site-a"}), 0);
  EXPECT_EQ(exported("FED_RUN"), "demo");
  EXPECT_EQ(exported("FED_FACILITY"), "site-a");
  EXPECT_EQ(exported("FED_SERVER"), "(unset)");
  EXPECT_EQ(exported("FED_POLL_MIN_S"), "60");
  EXPECT_EQ(exported("FED_JOB_ID"), "10001");
  EXPECT_EQ(exported("FED_SUBMIT_TIME"), "1000");
  EXPECT_EQ(exported("FED_ELIGIBLE_TIME"), "1010");
  EXPECT_EQ(exported("FED_START_TIME"), "1070");
  EXPECT_EQ(exported("FED_QUEUE_WAIT_S"), "60");
  EXPECT_EQ(exported("FED_RESTART_COUNT"), "0");
  EXPECT_EQ(exported("FED_TIME_LIMIT_S"), "300");
  EXPECT_EQ(exported("FED_END_TIME"), "1370");
  EXPECT_EQ(exported("FED_ERROR"), "(unset)");
  EXPECT_EQ(exported("HOME"), "/home/me");
  EXPECT_EQ(state().controller_questions, 1);
}

TEST_F(SpankPlugin, AsksTheControllerOncePerJob) {
  enter_batch_step();
  EXPECT_EQ(post_opt(), 0);
  for (const std::uint32_t step : {0U, 1U, 2U}) {  // the steps inherit the batch step's environment
    state().items[S_JOB_STEPID] = step;
    EXPECT_EQ(post_opt(), 0);
    EXPECT_EQ(exported("FED_QUEUE_WAIT_S"), "60");
  }
  EXPECT_EQ(state().controller_questions, 1);
}

TEST_F(SpankPlugin, AsksOnlyInTheFirstStepOnTheFirstNode) {
  struct Case {
    std::uint32_t step, node;
    int questions;
  };
  for (const Case& c : {Case{0, 0, 1}, Case{0, 1, 0}, Case{1, 0, 0}, Case{SLURM_EXTERN_CONT, 0, 0},
                        Case{SLURM_INTERACTIVE_STEP, 0, 1}}) {
    enter_batch_step();
    state().controller_questions = 0;
    state().items[S_JOB_STEPID] = c.step;
    state().items[S_JOB_NODEID] = c.node;
    EXPECT_EQ(post_opt(), 0);
    EXPECT_EQ(state().controller_questions, c.questions) << c.step << " on " << c.node;
    EXPECT_EQ(exported("FED_RUN"), "demo");
  }
}

TEST_F(SpankPlugin, DoesNotTakeOverFiguresOfAnotherJobOrLaunch) {
  enter_batch_step();
  state().job_environment["FED_QUEUE_WAIT_S"] = "999";
  state().job_environment["FED_ERROR"] = "of the job this one was submitted from";
  state().job_environment["SLURM_SPANK_FED_RECORD"] = "10001:0:1:1:5:none";
  state().items[S_SLURM_RESTART_COUNT] = 1;
  state().items[S_JOB_STEPID] = 4;
  EXPECT_EQ(post_opt(), 0);
  EXPECT_EQ(exported("FED_QUEUE_WAIT_S"), "(unset)");
  EXPECT_EQ(exported("FED_ERROR"), "(unset)");
  EXPECT_EQ(exported("FED_RESTART_COUNT"), "1");
}

TEST_F(SpankPlugin, AsksNothingWhenTheSiteSwitchedItOff) {
  enter_batch_step();
  EXPECT_EQ(post_opt({"record=no"}), 0);
  EXPECT_EQ(state().controller_questions, 0);
  EXPECT_EQ(exported("FED_RUN"), "demo");
  EXPECT_EQ(exported("FED_SUBMIT_TIME"), "(unset)");
}

TEST_F(SpankPlugin, FindsItsOwnRecordAmongThoseOfAnArray) {
  enter_batch_step();
  state().jobs = {job(9), job(job_id), job(11)};
  state().jobs[1].start_time = 1011;
  state().jobs[1].time_limit = INFINITE;
  EXPECT_EQ(post_opt(), 0);
  EXPECT_EQ(exported("FED_QUEUE_WAIT_S"), "1");
  EXPECT_EQ(exported("FED_TIME_LIMIT_S"), "(unset)");
  EXPECT_EQ(exported("FED_END_TIME"), "(unset)");
}

TEST_F(SpankPlugin, GoesOnWhenTheControllerDoesNotAnswer) {
  enter_batch_step();
  state().controller_result = -1;
  EXPECT_EQ(post_opt(), 0);
  state().controller_result = 0;
  state().jobs.clear();
  EXPECT_EQ(post_opt(), 0);
  EXPECT_EQ(exported("FED_RUN"), "demo");
  EXPECT_EQ(exported("FED_QUEUE_WAIT_S"), "(unset)");
  EXPECT_THAT(state().errors, IsEmpty());
}

TEST_F(SpankPlugin, TurnsABadOptionOnTheNodeIntoAMessageForTheTrainer) {
  for (const auto& [name, value] :
       Environment{{"SLURM_SPANK_FED_RUN", "Bad"},
                   {"SLURM_SPANK_FED_SERVER", "http://plain"},
                   {"SLURM_SPANK_FED_KIT", "/" + std::string(9000, 'x')},
                   {"SLURM_SPANK_FED_CONFIG", "/a\nb"}}) {
    enter_batch_step();
    state().job_environment[name] = value;
    state().job_environment["FED_QUEUE_WAIT_S"] = "999";
    EXPECT_EQ(post_opt(), 0);
    EXPECT_EQ(exported("FED_QUEUE_WAIT_S"), "(unset)");
    EXPECT_THAT(exported("FED_ERROR"), StartsWith("--fed-")) << name;
    EXPECT_EQ(exported("FED_RUN"), "(unset)");
  }
  enter_batch_step();
  state().job_environment = {{"SLURM_SPANK_FED_SERVER", "https://host"}};
  EXPECT_EQ(post_opt(), 0);
  EXPECT_THAT(exported("FED_ERROR"), HasSubstr("without a run"));
}

TEST_F(SpankPlugin, SurvivesEveryItemFailingInTurn) {
  for (const auto error : {ESPANK_NOT_AVAIL, ESPANK_NOT_REMOTE, ESPANK_BAD_ARG}) {
    for (const auto item : {S_JOB_ID, S_JOB_STEPID, S_JOB_NODEID, S_SLURM_RESTART_COUNT}) {
      enter_batch_step();
      state().failing_items = {{item, error}};
      for (const char* hook : all_hooks) EXPECT_EQ(plugin_->hook(hook), 0) << hook;
      EXPECT_EQ(exported("FED_RUN"), "demo");
      EXPECT_EQ(exported("FED_ERROR"), "(unset)");
    }
  }
}

// Every allocation of the plugin fails once, one after the other: std::bad_alloc from each place.
TEST_F(SpankPlugin, LetsNoExceptionIntoSlurm) {
  for (const auto context : {S_CTX_REMOTE, S_CTX_ALLOCATOR}) {
    int nth = 0;
    while (true) {
      plugin_ = std::make_unique<Plugin>(PLUGIN_FILE);
      enter_batch_step();
      state().context = context;
      plugin_->give("fed-run", "a-run-with-a-name-that-does-not-fit-into-a-small-string");
      state().errors.clear();
      fake_slurm::fail_allocation(++nth);
      const int result = post_opt({"server=https://a-rather-long-name.example.org", "colour=red"});
      const bool failed = fake_slurm::allocation_failed();
      fake_slurm::fail_allocation(0);
      EXPECT_EQ(result, 0);
      if (!failed) break;
      EXPECT_THAT(state().errors, ::testing::Contains(HasSubstr("bad_alloc"))) << nth;
    }
    EXPECT_GT(nth, 5) << "there were allocations to fail";
  }
}

TEST_F(SpankPlugin, MentionsAnUnknownArgumentOnlyToThoseWhoUseIt) {
  enter_batch_step();
  EXPECT_EQ(post_opt({"colour=red"}), 0);
  EXPECT_THAT(state().errors, ElementsAre(HasSubstr("colour=red")));
  EXPECT_EQ(exported("FED_QUEUE_WAIT_S"), "60");
}

TEST_F(SpankPlugin, IsWhatSlurmLooksForInAPlugin) {
  EXPECT_STREQ(static_cast<const char*>(plugin_->symbol("plugin_name")), "fedqueue");
  EXPECT_STREQ(static_cast<const char*>(plugin_->symbol("plugin_type")), "spank");
  EXPECT_EQ(*static_cast<const unsigned*>(plugin_->symbol("plugin_version")),
            static_cast<unsigned>(SLURM_VERSION_NUMBER));
}

TEST_F(SpankPlugin, CanBeUnloaded) {
  plugin_.reset();
  EXPECT_EQ(dlopen(PLUGIN_FILE, RTLD_NOW | RTLD_NOLOAD), nullptr);
}

std::set<std::string> last_words(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), &pclose);
  std::array<char, 512> line = {};
  std::set<std::string> words;
  while (std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    std::istringstream text(line.data());
    std::string word, last;
    while (text >> word) last = word;
    words.insert(last.substr(0, last.find('@')));
  }
  return words;
}

TEST(SpankPluginFile, ExportsTheExpectedSymbolsAndNothingElse) {
  std::set<std::string> expected = {"plugin_name",      "plugin_type",
                                    "plugin_version",   "spank_plugin_version",
                                    "slurm_spank_init", "slurm_spank_init_post_opt"};
  if (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)) {
    expected.insert("slurm_spank_init_failure_mode");
  }
  EXPECT_EQ(last_words(NM_PROGRAM " -D --defined-only " PLUGIN_FILE), expected);
}

TEST(SpankPluginFile, UsesOfSlurmOnlyWhatIsAgreed) {
  std::set<std::string> slurm;
  for (const std::string& name : last_words(NM_PROGRAM " -D --undefined-only " PLUGIN_FILE)) {
    if (name.find("slurm") != std::string::npos || name.find("spank") != std::string::npos) {
      slurm.insert(name);
    }
  }
  const std::set<std::string> agreed = {"slurm_debug",
                                        "slurm_error",
                                        "slurm_free_job_info_msg",
                                        "slurm_load_job",
                                        "spank_context",
                                        "spank_get_item",
                                        "spank_getenv",
                                        "spank_job_control_setenv",
                                        "spank_option_register",
                                        "spank_setenv",
                                        "spank_unsetenv"};
  EXPECT_EQ(slurm, agreed);
}

TEST(SpankPluginFile, NeedsOnlyTheCLibraryAndTheLoader) {
  const std::set<std::string> needed =
      last_words(READELF_PROGRAM " -d " PLUGIN_FILE " | grep NEEDED");
  ASSERT_FALSE(needed.empty());
  for (const std::string& library : needed) {
    EXPECT_TRUE(library.rfind("[libc.so", 0) == 0 || library.rfind("[libm.so", 0) == 0 ||
                library.rfind("[ld-linux", 0) == 0)
        << library;
  }
}

}  // namespace
