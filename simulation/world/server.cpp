#include "simulation/world/server.h"

#include "core/base/digest.h"

namespace fedqueue::simulation {
namespace {

const std::filesystem::path folder = "/server";

std::string random_token(Prng& random) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string token(32, '0');
  for (char& digit : token) digit = digits[random.below(16)];
  return token;
}

// What nothing refers to goes, as fedserver does at its start.
Status sweep(BlobStore& blobs, const RunState& state) {
  const FilesInUse files = files_in_use(state);
  const Result<SweepReport> report = blobs.sweep(files.updates, files.models);
  return report ? Status() : Status(report.error());
}

}  // namespace

class SimulatedServer::FactWitness : public Observer {
 public:
  explicit FactWitness(Witness& witness) : witness_(witness) {}
  void on_fact(const JournalRow& row, const Fact& fact, const Engine& engine) override {
    witness_.on_fact(row, fact, engine);
  }

 private:
  Witness& witness_;
};

struct SimulatedServer::Process {
  Process(Witness& watching, std::unique_ptr<BlobStore> store, ServerProcess parts)
      : facts(watching),
        blobs(std::move(store)),
        ports(std::move(parts)),
        reducer(ports),
        desk(ports) {}
  FactWitness facts;
  std::unique_ptr<BlobStore> blobs;
  ServerProcess ports;
  SimulatedReducer reducer;
  std::unique_ptr<Driver> driver;
  Desk desk;  // its uploads end before the blob store
  Instant resumed_at{};
  Instant started_at{};
  bool serving = false;
  bool turn_due = false;
  Clock::Ticket wakeup = 0;
};

SimulatedServer::SimulatedServer(Clock& clock, ServerSetup setup, ModelAlgebra& algebra,
                                 Witness& witness, DiskFaults* disk_faults)
    : clock_(clock),
      setup_(std::move(setup)),
      algebra_(algebra),
      witness_(witness),
      disk_(clock, mortal_, disk_faults),
      journal_(mortal_),
      tokens_(setup_.seed) {
  disk_.put(folder / "models" / BlobStore::model_file(0), setup_.initial);
}

SimulatedServer::~SimulatedServer() { mortal_.end(); }

Instant SimulatedServer::uptime() const {
  return process_->resumed_at + (clock_.now() - process_->started_at) + jumped_;
}

const Engine& SimulatedServer::engine() const { return process_->driver->engine(); }

// Runs a piece of the process; its death ends here.
void SimulatedServer::guard(const std::function<void()>& work) {
  try {
    work();
  } catch (const ProcessDied& death) {
    clock_.tell("server", "died " + death.where);
    process_.reset();
    witness_.on_server_died(death.where);
    if (on_death_) on_death_();
  }
}

void SimulatedServer::start() {
  if (process_) return;
  mortal_.revive();
  jumped_ = {};
  guard([this] { boot(); });
}

void SimulatedServer::boot() {
  ++processes_;
  Result<std::unique_ptr<BlobStore>> blobs =
      BlobStore::open(folder, setup_.limits, disk_, Syncing::at_once);
  if (!blobs) mortal_.die("since its folder could not be opened");
  BlobStore& store = **blobs;
  // Everything that is to happen later belongs to this process alone.
  auto born = std::make_shared<std::weak_ptr<Process>>();
  ServerProcess ports{[this, born](double seconds, const char* what, std::function<void()> work) {
                        clock_.after(from_seconds(seconds), what,
                                     [this, born, work = std::move(work)] {
                                       if (!born->expired()) guard(work);
                                     });
                      },
                      [this](Event event, fedqueue::Reply reply) {
                        return process_->driver->post(std::move(event), std::move(reply));
                      },
                      [this](Event event) { process_->driver->complete(std::move(event)); },
                      [this]() -> const Engine& { return engine(); },
                      [this] { return random_token(tokens_); },
                      disk_,
                      store,
                      algebra_,
                      witness_,
                      setup_.reduce_s,
                      setup_.screen_s,
                      setup_.norm_max,
                      setup_.repeats};
  process_ = std::make_shared<Process>(witness_, std::move(*blobs), std::move(ports));
  *born = process_;
  ModelRecord initial;
  if (journal_.all().empty()) {
    initial = {0, BlobStore::model_file(0), sha256_hex(setup_.initial), setup_.initial.size()};
  }
  Result<std::unique_ptr<Driver>> driver = Driver::create(
      setup_.engine, std::move(initial), journal_, process_->reducer, {&process_->facts},
      [this] { wake(); }, setup_.queue_max);
  if (!driver) mortal_.die("since its journal could not be replayed: " + driver.error().message);
  process_->driver = std::move(*driver);
  process_->resumed_at = process_->driver->resumed_at();
  process_->started_at = clock_.now();
  if (Status swept = sweep(store, engine().state()); !swept) mortal_.die("while it swept");
  witness_.on_server_started(engine(), disk_);
  clock_.tell("server", "started, version " + std::to_string(engine().state().latest));
  process_->serving = true;
  process_->driver->resume(uptime());
  for (const auto& [id, samples] : setup_.facilities) {
    (void)post(FacilityEnrolled{id, samples});
  }
  wake();
}

void SimulatedServer::kill() {
  if (!process_) return;
  clock_.tell("server", "killed");
  if (process_->serving) witness_.on_server_ending(engine());
  mortal_.end();
  process_.reset();
}

void SimulatedServer::fail_power(Prng& random) {
  kill();
  clock_.tell("server", "power failure");
  disk_.power_failure(random);
  witness_.on_power_failure(disk_);
}

void SimulatedServer::wake() {
  if (!process_ || !process_->serving || process_->turn_due) return;
  process_->turn_due = true;
  process_->ports.later(setup_.turn_s, "turn", [this] { turn(); });
}

void SimulatedServer::turn() {
  process_->turn_due = false;
  witness_.on_load({process_->driver->queued(), process_->desk.uploads(),
                    process_->blobs->uploads_open(), process_->reducer.actions()},
                   engine(), disk_);
  process_->driver->turn(uptime());
  witness_.on_turn(engine());
  if (process_->driver->has_work()) return wake();
  plan_wakeup();
}

void SimulatedServer::plan_wakeup() {
  clock_.cancel(process_->wakeup);
  process_->wakeup = 0;
  const std::optional<Instant> at = process_->driver->next_wakeup();
  if (!at) return;
  const Duration delay = std::max(*at - uptime(), Duration{});
  process_->wakeup =
      clock_.after(delay, "wake-up", [this, process = std::weak_ptr<Process>(process_)] {
        if (!process.expired()) wake();
      });
}

bool SimulatedServer::receive(const FacilityId& peer, std::shared_ptr<const Request> request,
                              const BodyFlow& flow, Respond respond) {
  if (!process_ || !process_->serving) return false;
  guard([&] { process_->desk.receive(peer, request, flow, std::move(respond)); });
  return true;
}

bool SimulatedServer::post(Event event, fedqueue::Reply reply) {
  return process_ && process_->driver->post(std::move(event), std::move(reply));
}

}  // namespace fedqueue::simulation
