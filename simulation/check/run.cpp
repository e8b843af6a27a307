#include "simulation/check/run.h"

#include <exception>
#include <memory>
#include <utility>

#include "core/base/assert.h"
#include "simulation/check/faults.h"
#include "simulation/check/trainer.h"

namespace fedqueue::simulation {
namespace {

// A process of the product that found itself broken ends; here the seed ends with a violation.
struct BrokenInvariant {
  std::string what;
};

void throw_broken(const char* file, int line, const char* condition) {
  throw BrokenInvariant{std::string(file) + ":" + std::to_string(line) +
                        ": broken invariant: " + condition};
}

// Rounds that must end after the faults, before the run is stopped.
constexpr Version calm_rounds = 2;
// More events than any healthy seed has: something turns in a circle.
constexpr std::uint64_t events_max = 400'000;

class Play {
 public:
  Play(std::uint64_t seed, const Trace::Listener& listener)
      : scenario_(draw_scenario(seed)),
        faults_(scenario_),
        trainer_(scenario_, faults_),
        checker_(scenario_),
        algebra_(scenario_.with_controls),
        world_(seed, server_setup(), trainer_, checker_, {&faults_, &faults_, &faults_, &faults_},
               &algebra_) {
    if (listener) world_.clock().trace().listen(listener);
    checker_.attach(world_);
    trainer_.on_settled(
        [this](const FacilityId& facility, const UpdateId& id, Disposition disposition) {
          checker_.settled(facility, id, disposition);
        });
    build();
  }

  void run(SeedResult& result) {
    try {
      phases(result);
    } catch (const BrokenInvariant& broken) {
      checker_.violation(broken.what);
    } catch (const std::exception& error) {
      checker_.violation(std::string("an exception that nobody caught: ") + error.what());
    }
    result.hash = world_.clock().trace().hex();
    result.violations = checker_.violations();
    result.events = world_.clock().events();
    result.virtual_s = now_s();
    result.versions = checker_.latest();
    result.processes = world_.server().processes();
  }

 private:
  [[nodiscard]] double now_s() { return to_seconds(world_.clock().now().time_since_epoch()); }

  [[nodiscard]] ServerSetup server_setup() {
    ServerSetup setup;
    setup.engine = scenario_.engine;
    setup.norm_max = scenario_.norm_max;
    setup.queue_max = scenario_.queue_max;
    setup.turn_s = scenario_.turn_s;
    setup.reduce_s = scenario_.reduce_s;
    setup.repeats = [this] { return faults_.repeats_action(); };
    setup.limits.sync_every_bytes = scenario_.sync_every_bytes;
    Prng random = stream(scenario_.seed, "model");
    std::vector<float> model(scenario_.model_floats);
    for (float& value : model) value = static_cast<float>(random.normal());
    if (scenario_.with_controls) model.resize(2 * model.size());
    setup.initial = to_bytes(model);
    for (const ScenarioFacility& facility : scenario_.facilities) {
      setup.facilities.emplace_back(FacilityId(facility.name), facility.samples);
    }
    return setup;
  }

  void build() {
    world_.clock().tell("scenario", describe(scenario_));
    world_.network().set_piece_bytes(scenario_.piece_bytes);
    world_.network().set_timeout(15);
    world_.server().journal().set_faults([this] { return faults_.commit(); });
    world_.server().on_death([this] { faults_.server_died(); });
    std::map<FacilityId, DrawnQueue*> queues;
    for (const ScenarioFacility& facility : scenario_.facilities) {
      queues_.push_back(
          std::make_unique<FaultyQueue>(facility, scenario_.rates, faults_,
                                        stream_seed(scenario_.seed, "queue", queues_.size())));
      FacilitySetup setup;
      setup.id = FacilityId(facility.name);
      setup.run = RunId(scenario_.engine.run);
      setup.path = {facility.latency_s, facility.bytes_per_s, facility.bytes_per_s};
      setup.time_limit_s = facility.time_limit_s;
      setup.session_reserve = std::chrono::seconds(20);
      setup.session_retry = {std::chrono::milliseconds(500), std::chrono::seconds(20),
                             std::chrono::minutes(3)};
      hurry(setup.agent);
      world_.add_facility(setup, *queues_.back());
      queues[setup.id] = queues_.back().get();
    }
    faults_.begin(world_, std::move(queues));
  }

  // Shorter waits than an agent's defaults, so that more happens in an hour.
  static void hurry(AgentSettings& agent) {
    agent.poll_interval = std::chrono::seconds(8);
    agent.poll_longest = std::chrono::seconds(60);
    agent.settle_time = std::chrono::seconds(10);
    agent.limit_retry = std::chrono::seconds(10);
    agent.limit_retry_longest = std::chrono::seconds(60);
    agent.unseen_time = std::chrono::minutes(20);
    agent.failure_retry = std::chrono::seconds(5);
    agent.failure_retry_longest = std::chrono::seconds(60);
    agent.server = {std::chrono::seconds(1), std::chrono::seconds(30), Duration::max()};
    agent.finish_time = std::chrono::seconds(30);
  }

  [[nodiscard]] bool over() const { return events() > events_max; }
  [[nodiscard]] std::uint64_t events() const { return const_cast<World&>(world_).clock().events(); }

  // Runs until `done`, the time is over, or nothing but noise happens.
  bool until(const std::function<bool()>& done, double bound_s) {
    const Instant end = world_.clock().now() + from_seconds(bound_s);
    (void)world_.clock().run_while_not([&] { return done() || over(); }, end);
    return done();
  }

  void phases(SeedResult& result) {
    world_.start();
    faults_.allow_disk();
    (void)until([] { return false; }, scenario_.faults_s);
    end_faults();
    const double calm_since_s = now_s();
    calm();
    result.calm_s = now_s() - calm_since_s;
    if (over()) checker_.violation("something turns in a circle: too many events");
  }

  void end_faults() {
    world_.clock().tell("scenario", "the faults end");
    faults_.stop();
    world_.server().disk().set_capacity(0);
    world_.server().start();
    for (auto& queue : queues_) queue->release_stuck(now_s());
    for (auto& [id, facility] : world_.facilities()) {
      facility->scheduler().advance();
      revive_agent(*facility);
    }
  }

  // An operator starts an agent again that ended with an error.
  void revive_agent(Facility& facility) {
    if (facility.agent_running() || facility.agent_exit() == 0) return;
    facility.start_agent();
  }

  [[nodiscard]] bool finished() {
    return world_.server().running() && !world_.server().engine().state().finished.empty();
  }

  void calm() {
    rounds_end();
    if (!finished()) {
      checker_.catch_up();
      world_.clock().tell("scenario", "the operator stops the run");
      bool asked = false;
      const auto ask = [&] {
        asked = asked || finished() || world_.server().post(StopRequested{"enough"});
        return asked;
      };
      if (!until(ask, scenario_.calm_bound_s)) checker_.violation("the run cannot be stopped");
    }
    everybody_ends();
  }

  // Every open round ends, and every honest facility gets its updates decided.
  void rounds_end() {
    const Version before = checker_.latest();
    std::map<FacilityId, int> decided;
    for (const ScenarioFacility& facility : scenario_.facilities) {
      if (facility.lie != Lie::none) continue;
      decided[FacilityId(facility.name)] = checker_.decided(FacilityId(facility.name));
    }
    const auto done = [&] {
      if (finished()) return true;
      if (checker_.latest() < before + calm_rounds) return false;
      for (const auto& [id, count] : decided) {
        if (checker_.decided(id) <= count) return false;
      }
      return true;
    };
    watch_agents();
    if (until(done, scenario_.calm_bound_s)) return;
    std::string who;
    for (const auto& [id, count] : decided) {
      if (checker_.decided(id) <= count) who += " " + id.str();
    }
    checker_.violation("after the faults, " + std::to_string(checker_.latest() - before) +
                       " rounds ended within " + std::to_string(scenario_.calm_bound_s) +
                       " s; facilities without an update:" + (who.empty() ? " none" : who));
  }

  void everybody_ends() {
    const auto done = [&] {
      for (const auto& [id, facility] : world_.facilities()) {
        if (facility->agent_running() || facility->agent_exit() != 0) return false;
        if (facility->processes() > 0 || facility->scheduler().live() > 0) return false;
      }
      return true;
    };
    if (until(done, scenario_.calm_bound_s)) return;
    for (const auto& [id, facility] : world_.facilities()) {
      if (facility->agent_running()) checker_.violation("the agent of " + id.str() + " never ends");
      if (facility->scheduler().live() > 0 || facility->processes() > 0) {
        checker_.violation("jobs of " + id.str() + " outlive the run");
      }
    }
  }

  // Agents that end with an error are started again a while later.
  void watch_agents() {
    world_.clock().after(std::chrono::seconds(60), "operator", [this] {
      for (auto& [id, facility] : world_.facilities()) revive_agent(*facility);
      watch_agents();
    });
  }

  Scenario scenario_;
  Faults faults_;
  CheckTrainer trainer_;
  Checker checker_;
  ModelAlgebra algebra_;
  std::vector<std::unique_ptr<FaultyQueue>> queues_;
  World world_;  // ends first
};

}  // namespace

SeedResult play_seed(std::uint64_t seed, const Trace::Listener& listener, points::Bug bug) {
  SeedResult result;
  result.seed = seed;
  points::reset_marks();
  points::plant(bug);
  const InvariantHandler before = on_broken_invariant(throw_broken);
  {
    Play play(seed, listener);
    play.run(result);
  }
  on_broken_invariant(before);
  points::plant(points::Bug::none);
  result.marks = points::marks();
  return result;
}

}  // namespace fedqueue::simulation
