// What an operator relies on when kits are made, renewed and revoked.
#include "fedserver/certificates/commands.h"

#include <gmock/gmock.h>
#include <openssl/pem.h>

#include <nlohmann/json.hpp>

#include "core/kit/pem.h"
#include "core/kit/request.h"
#include "tests/unit/fedserver/certificates/certificates_fixture.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class CertificateCommandsTest : public CertificatesTest {
 protected:
  // A request signed by the key, or by another one.
  std::filesystem::path request_file(EVP_PKEY* key, EVP_PKEY* signer, const std::string& name) {
    const CertificateRequestPtr request(X509_REQ_new());
    X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(request.get()), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    STACK_OF(X509_EXTENSION)* extensions = sk_X509_EXTENSION_new_null();
    const std::string uri = "URI:fedqueue:operator:" + name;
    sk_X509_EXTENSION_push(
        extensions, X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, uri.c_str()));
    sk_X509_EXTENSION_push(extensions, X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints,
                                                           "critical,CA:TRUE"));
    X509_REQ_add_extensions(request.get(), extensions);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    X509_REQ_set_pubkey(request.get(), key);
    X509_REQ_sign(request.get(), signer, EVP_sha256());
    const BioPtr bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509_REQ(bio.get(), request.get());
    char* data = nullptr;
    const long length = BIO_get_mem_data(bio.get(), &data);
    return scratch.file("eve.csr", std::string(data, static_cast<std::size_t>(length)));
  }
  ClientCertificateOrder order(const std::string& name) {
    return {.identity = {IdentityKind::facility, name}, .samples = 600};
  }
};

TEST_F(CertificateCommandsTest, TheKeyOfARequestNeverLeavesItsFacility) {
  const std::filesystem::path home = scratch / "home";
  const auto request = create_request(home, "site-a");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(mode_of(home / "client.key"), 0600u);

  ClientCertificateOrder signing = order("site-a");
  signing.request_file = *request;
  ASSERT_TRUE(issue_client_certificate(run, signing).has_value());
  const std::filesystem::path kit = run.files.kit(signing.identity);
  EXPECT_FALSE(std::filesystem::exists(kit / "client.key"));
  for (const char* file : {"ca.crt", "client.crt", "facility.ini"}) {
    std::filesystem::copy_file(kit / file, home / file);
  }
  const Result<Kit> loaded = load_kit(home, {.kind = IdentityKind::facility});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->identity.name, "site-a");
}

TEST_F(CertificateCommandsTest, ARequestIsMadeAgainWithTheSameKey) {
  ASSERT_TRUE(create_request(scratch / "home", "site-a").has_value());
  const std::string key = Scratch::content(scratch / "home/client.key");
  ASSERT_TRUE(create_request(scratch / "home", "site-a").has_value());
  EXPECT_EQ(Scratch::content(scratch / "home/client.key"), key);
}

TEST_F(CertificateCommandsTest, ARequestCannotChooseItsNameKindOrPowers) {
  const KeyPtr key = std::move(*generate_key());
  ClientCertificateOrder signing = order("site-a");
  signing.request_file = request_file(key.get(), key.get(), "eve");
  ASSERT_TRUE(issue_client_certificate(run, signing).has_value());
  const CertificatePtr certificate =
      std::move(*read_certificate(run.files.kit(signing.identity) / "client.crt"));
  EXPECT_EQ(*identity_of(certificate.get()), (Identity{IdentityKind::facility, "site-a"}));
  EXPECT_EQ(X509_check_ca(certificate.get()), 0);
  char name[64] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name,
                            sizeof name);
  EXPECT_STREQ(name, "site-a");
}

TEST_F(CertificateCommandsTest, ARequestMustProveThatItsSenderHoldsTheKey) {
  const KeyPtr victim = std::move(*generate_key());
  const KeyPtr thief = std::move(*generate_key());
  ClientCertificateOrder signing = order("site-a");
  signing.request_file = request_file(victim.get(), thief.get(), "site-a");
  EXPECT_EQ(failure_of(issue_client_certificate(run, signing)).code, Code::identity);
  EXPECT_THAT(*registry().list(), SizeIs(1));  // the server's alone
}

TEST_F(CertificateCommandsTest, WeakKeysAreRefused) {
  const KeyPtr weak(EVP_RSA_gen(1024));
  ClientCertificateOrder signing = order("site-a");
  signing.request_file = request_file(weak.get(), weak.get(), "site-a");
  EXPECT_THAT(failure_of(issue_client_certificate(run, signing)).message, HasSubstr("too weak"));
}

TEST_F(CertificateCommandsTest, AFacilityIsEnrolledWithItsSamples) {
  ClientCertificateOrder unsure = order("site-a");
  unsure.samples.reset();
  EXPECT_EQ(failure_of(issue_client_certificate(run, unsure)).code, Code::usage);
  unsure.samples = 0;
  EXPECT_EQ(failure_of(issue_client_certificate(run, unsure)).code, Code::usage);
  ASSERT_TRUE(issue_client_certificate(run, order("site-a")).has_value());
  EXPECT_EQ((*registry().facility(FacilityId("site-a")))->samples, 600);
  EXPECT_TRUE(change_facility_samples(run, "site-a", 700).has_value());
  EXPECT_EQ((*registry().facility(FacilityId("site-a")))->samples, 700);
}

TEST_F(CertificateCommandsTest, ASecondKitForOneNameNeedsARenewal) {
  kit_for(IdentityKind::facility, "site-a");
  const Error error = failure_of(issue_client_certificate(run, order("site-a")));
  EXPECT_EQ(error.code, Code::conflict);
  EXPECT_THAT(error.cure,
              HasSubstr("fedserver cert renew " + run.files.run_directory.string() + " site-a"));
}

TEST_F(CertificateCommandsTest, ARenewalLeavesTheOldCertificateWorking) {
  const std::filesystem::path kit = kit_for(IdentityKind::facility, "site-a");
  const std::string old = load_kit(kit)->fingerprint;
  ASSERT_TRUE(renew_client_certificate(run, {.name = "site-a"}).has_value());
  const std::string renewed = load_kit(kit)->fingerprint;
  EXPECT_NE(renewed, old);
  EXPECT_FALSE(standing(old).revoked);
  ASSERT_TRUE(renew_client_certificate(run, {.name = "site-a", .revoke_old = true}).has_value());
  EXPECT_TRUE(standing(old).revoked);
  EXPECT_TRUE(standing(renewed).revoked);
  EXPECT_FALSE(standing(load_kit(kit)->fingerprint).revoked);
}

TEST_F(CertificateCommandsTest, ARenewalKeepsTheSettingsOfTheFacility) {
  const std::filesystem::path kit = kit_for(IdentityKind::facility, "site-a");
  scratch.file("run/facilities/site-a/facility.ini", "facility = site-a\npartition = gpu\n");
  ASSERT_TRUE(renew_client_certificate(run, {.name = "site-a"}).has_value());
  EXPECT_THAT(Scratch::content(kit / "facility.ini"), HasSubstr("partition = gpu"));
}

TEST_F(CertificateCommandsTest, OnlyKnownNamesAreRenewed) {
  EXPECT_EQ(failure_of(renew_client_certificate(run, {.name = "site-a"})).code, Code::not_found);
  kit_for(IdentityKind::administrator, "ada");
  kit_for(IdentityKind::observer, "ada");
  EXPECT_EQ(failure_of(renew_client_certificate(run, {.name = "ada"})).code, Code::conflict);
  EXPECT_TRUE(renew_client_certificate(run, {.name = "ada", .kind = "observer"}).has_value());
}

TEST_F(CertificateCommandsTest, ARevokedFacilityMayComeBackWithANewKit) {
  const std::string old = load_kit(kit_for(IdentityKind::facility, "site-a"))->fingerprint;
  const auto revoked = revoke_certificates(run, "site-a", "");
  ASSERT_TRUE(revoked.has_value());
  EXPECT_THAT(revoked->text, HasSubstr("Revoked 1 certificate of facility 'site-a'"));
  EXPECT_TRUE(standing(old).revoked);
  ASSERT_TRUE(issue_client_certificate(run, order("site-a")).has_value());
  EXPECT_TRUE(standing(old).revoked);
  EXPECT_FALSE(
      standing(load_kit(run.files.kit({IdentityKind::facility, "site-a"}))->fingerprint).revoked);
}

TEST_F(CertificateCommandsTest, AddingAFacilityTouchesNoOther) {
  const std::filesystem::path first = kit_for(IdentityKind::facility, "site-a");
  const std::string before = Scratch::content(first / "client.crt");
  kit_for(IdentityKind::facility, "site-b");
  EXPECT_EQ(Scratch::content(first / "client.crt"), before);
  EXPECT_TRUE(load_kit(first).has_value());
}

TEST_F(CertificateCommandsTest, TheListShowsStatesAndAnnouncesExpiry) {
  kit_for(IdentityKind::facility, "site-a");
  kit_for(IdentityKind::facility, "site-b", std::chrono::days{20});
  kit_for(IdentityKind::observer, "ada");
  ASSERT_TRUE(revoke_certificates(run, "ada", "").has_value());
  auto listed = list_certificates(run);
  ASSERT_TRUE(listed.has_value());
  const auto json = nlohmann::json::parse(listed->json);
  std::map<std::string, std::string> states;
  for (const auto& certificate : json["certificates"]) {
    states[certificate["name"]] = certificate["state"];
    EXPECT_EQ(certificate["fingerprint"].get<std::string>().size(), 64u);
  }
  EXPECT_EQ(states, (std::map<std::string, std::string>{{"server", "valid"},
                                                        {"site-a", "valid"},
                                                        {"site-b", "expires soon"},
                                                        {"ada", "revoked"}}));
  EXPECT_EQ(json["facilities"][0]["samples"], 600);
  ASSERT_THAT(listed->notes, SizeIs(1));
  EXPECT_THAT(listed->notes[0], HasSubstr("site-b expires on"));
  EXPECT_THAT(listed->text, HasSubstr("SAMPLES"));

  ASSERT_TRUE(renew_client_certificate(run, {.name = "site-b"}).has_value());
  EXPECT_THAT(list_certificates(run)->notes, SizeIs(0));
}

TEST_F(CertificateCommandsTest, TheServerGetsANewCertificateWithOtherNames) {
  ASSERT_TRUE(issue_server_certificate(run, {{"new.example.org"}, {}}).has_value());
  const CertificatePtr certificate = std::move(*read_certificate(run.files.server_certificate()));
  const KeyPtr key = std::move(*read_private_key(run.files.server_key()));
  EXPECT_EQ(X509_check_private_key(certificate.get(), key.get()), 1);
  EXPECT_EQ(X509_check_host(certificate.get(), "new.example.org", 0, 0, nullptr), 1);
}

TEST_F(CertificateCommandsTest, AFolderWithoutARunIsNotMadeOne) {
  CertificateRun elsewhere;
  elsewhere.files.run_directory = scratch / "empty";
  const Error error = failure_of(list_certificates(elsewhere));
  EXPECT_EQ(error.code, Code::usage);
  EXPECT_THAT(error.cure, HasSubstr("fedserver init"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "empty"));
}

TEST_F(CertificateCommandsTest, TheAuthorityMayBeKeptElsewhere) {
  kit_for(IdentityKind::facility, "site-a");
  std::filesystem::rename(run.files.authority(), scratch / "safe");
  EXPECT_TRUE(list_certificates(run).has_value());
  EXPECT_TRUE(revoke_certificates(run, "site-a", "").has_value());
  EXPECT_EQ(failure_of(issue_client_certificate(run, order("site-b"))).code, Code::kit);
}

TEST_F(CertificateCommandsTest, NoReportShowsAKey) {
  const auto made = issue_client_certificate(run, order("site-a"));
  ASSERT_TRUE(made.has_value());
  EXPECT_THAT(made->text + made->json, Not(HasSubstr("PRIVATE KEY")));
}

}  // namespace
}  // namespace fedqueue
