#include "fedserver/certificates/registry.h"

#include <gmock/gmock.h>
#include <sqlite3.h>

#include <thread>

#include "tests/unit/fedserver/certificates/certificates_fixture.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

CertificateRecord record(const std::string& name, char digit,
                         const std::string& kind = "facility") {
  const CalendarTime now = calendar_now();
  return {std::string(64, digit),       kind, name,        std::string(32, digit), now,
          now + std::chrono::days{365}, now,  std::nullopt};
}

class RegistryTest : public ::testing::Test {
 protected:
  RegistryTest() : registry(std::move(*Registry::open(path()))) {}
  std::filesystem::path path() { return scratch / "certificates.sqlite"; }
  void add(const CertificateRecord& certificate) {
    ASSERT_TRUE(registry.record(certificate).has_value());
  }
  Scratch scratch;
  Registry registry;
  CalendarTime now = calendar_now();
};

TEST_F(RegistryTest, ACertificateTheServerNeverIssuedIsUnknown) {
  const auto found = registry.lookup(std::string(64, 'f'));
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->has_value());
}

TEST_F(RegistryTest, ARevocationByAnotherProcessIsSeenByTheNextQuestion) {
  add(record("site-a", 'a'));
  Registry other = std::move(*Registry::open(path()));
  ASSERT_FALSE((*registry.lookup(std::string(64, 'a')))->revoked);
  ASSERT_TRUE(other.revoke("site-a", "", now).has_value());
  const auto standing = *registry.lookup(std::string(64, 'a'));
  ASSERT_TRUE(standing.has_value());
  EXPECT_TRUE(standing->revoked);
  EXPECT_EQ(standing->name, "site-a");
  EXPECT_EQ(standing->kind, "facility");
}

TEST_F(RegistryTest, ANameRevokesAllItsCertificatesAndAFingerprintOne) {
  add(record("site-a", 'a'));
  add(record("site-a", 'b'));
  add(record("site-b", 'c'));
  EXPECT_THAT(*registry.revoke("BB:BB:BB:BB", "", now), SizeIs(1));
  EXPECT_TRUE((*registry.lookup(std::string(64, 'b')))->revoked);
  EXPECT_FALSE((*registry.lookup(std::string(64, 'a')))->revoked);
  EXPECT_THAT(*registry.revoke("site-a", "", now), SizeIs(1));
  EXPECT_THAT(*registry.revoke("site-a", "", now), IsEmpty());
  EXPECT_FALSE((*registry.lookup(std::string(64, 'c')))->revoked);
}

TEST_F(RegistryTest, AFirstRevocationKeepsItsTime) {
  add(record("site-a", 'a'));
  ASSERT_TRUE(registry.revoke("site-a", "", now).has_value());
  ASSERT_TRUE(registry.revoke("site-a", "", now + std::chrono::hours(1)).has_value());
  EXPECT_EQ(registry.list()->at(0).revoked_at, now);
}

TEST_F(RegistryTest, WhatIsMeantMustBeClear) {
  add(record("ada", 'a', "operator"));
  add(record("ada", 'b', "observer"));
  CertificateRecord near = record("bob", 'b');
  near.fingerprint.back() = 'c';
  near.serial.back() = 'c';
  add(near);
  EXPECT_EQ(failure_of(registry.revoke("ada", "", now)).code, Code::conflict);
  EXPECT_EQ(failure_of(registry.revoke("bbbbbbbbbb", "", now)).code, Code::conflict);
  EXPECT_EQ(failure_of(registry.revoke("nobody", "", now)).code, Code::not_found);
  EXPECT_EQ(failure_of(registry.revoke("aaaaaaa", "", now)).code, Code::not_found);
  EXPECT_EQ(failure_of(registry.revoke("ada", "facility", now)).code, Code::not_found);
  EXPECT_THAT(*registry.revoke("ada", "observer", now), SizeIs(1));
  EXPECT_FALSE((*registry.lookup(std::string(64, 'a')))->revoked);
}

TEST_F(RegistryTest, TheSampleCountOfAFacilityIsFixedAtItsEnrolment) {
  const FacilityId site("site-a");
  ASSERT_TRUE(registry.enrol(site, 600, now).has_value());
  EXPECT_TRUE(registry.enrol(site, 600, now).has_value());
  const Error error = failure_of(registry.enrol(site, 900, now));
  EXPECT_EQ(error.code, Code::conflict);
  EXPECT_THAT(error.message, HasSubstr("enrolled with 600 samples, not 900"));
  EXPECT_EQ((*registry.facility(site))->samples, 600);
  ASSERT_TRUE(registry.change_samples(site, 900).has_value());
  EXPECT_EQ((*registry.facility(site))->samples, 900);
  EXPECT_EQ(failure_of(registry.change_samples(FacilityId("site-b"), 5)).code, Code::not_found);
}

TEST_F(RegistryTest, WhatWasReportedAsDoneIsThereAfterReopening) {
  add(record("site-a", 'a'));
  ASSERT_TRUE(registry.enrol(FacilityId("site-a"), 600, now).has_value());
  ASSERT_TRUE(registry.enrol(FacilityId("b"), 1, now).has_value());
  registry = std::move(*Registry::open(path()));
  ASSERT_THAT(*registry.list(), SizeIs(1));
  const CertificateRecord kept = registry.list()->at(0);
  EXPECT_EQ(kept.serial, std::string(32, 'a'));
  EXPECT_EQ(kept.issued_at, record("site-a", 'a').issued_at);
  ASSERT_THAT(*registry.facilities(), SizeIs(2));
  EXPECT_EQ(registry.facilities()->at(0).name, FacilityId("b"));
}

TEST_F(RegistryTest, OneCertificateIsRecordedOnce) {
  add(record("site-a", 'a'));
  EXPECT_FALSE(registry.record(record("site-b", 'a')).has_value());
}

TEST_F(RegistryTest, TheFileIsForItsOwnerAlone) { EXPECT_EQ(mode_of(path()), 0600u); }

TEST_F(RegistryTest, AFileOfANewerFormatIsLeftAlone) {
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &raw), SQLITE_OK);
  sqlite3_exec(raw, "PRAGMA user_version=99", nullptr, nullptr, nullptr);
  sqlite3_close(raw);
  EXPECT_THAT(failure_of(Registry::open(path())).message, HasSubstr("format 99"));
}

TEST_F(RegistryTest, AFileThatIsNoDatabaseIsReported) {
  const Error error = failure_of(Registry::open(scratch.file("x", std::string(4096, 'x'))));
  EXPECT_EQ(error.code, Code::storage);
  EXPECT_THAT(error.message, HasSubstr("open the certificate registry"));
}

TEST_F(RegistryTest, ManyThreadsMayAskWhileAnotherProcessWrites) {
  for (char digit = 'a'; digit <= 'f'; ++digit) add(record(std::string("site-") + digit, digit));
  Registry other = std::move(*Registry::open(path()));
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 500; ++k) {
        const auto found = registry.lookup(std::string(64, static_cast<char>('a' + k % 6)));
        if (!found || !*found) ++failures;
      }
    });
  }
  for (char digit = 'a'; digit <= 'f'; ++digit) {
    if (!other.revoke(std::string("site-") + digit, "", now)) ++failures;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_TRUE((*registry.lookup(std::string(64, 'f')))->revoked);
}

}  // namespace
}  // namespace fedqueue
