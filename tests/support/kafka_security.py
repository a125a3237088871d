"""What a Kafka listener asks of its clients: TLS, SASL, or both."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.support.certificates import ServerCertificate

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

_LOGIN_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSecurity:
    """Security of a listener.

    Attributes:
        certificate: Turns TLS on, with this certificate.
        mechanisms: SASL mechanisms offered; none means no SASL.
        users: Password by user name, the same for every mechanism.
    """

    certificate: ServerCertificate | None = None
    mechanisms: tuple[Mechanism, ...] = ()
    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Refuse a listener that would be neither encrypted nor authenticated."""
        if self.certificate is None and not self.mechanisms:
            raise ValueError("a secure listener needs a certificate, a SASL mechanism, or both")
        if bool(self.mechanisms) != bool(self.users):
            raise ValueError("SASL mechanisms and users go together")

    @property
    def protocol(self) -> str:
        """The client's ``security.protocol`` for this listener."""
        if not self.mechanisms:
            return "SSL"
        return "SASL_PLAINTEXT" if self.certificate is None else "SASL_SSL"

    def listener_properties(self, listener: str, directory: Path) -> dict[str, str]:
        """Server properties of the listener; writes its key store into ``directory``."""
        prefix = f"listener.name.{listener.lower()}"
        properties: dict[str, str] = {}
        if self.certificate is not None:
            key_store = directory / "keystore.pem"
            key_store.write_text(self.certificate.key.read_text() + self.certificate.certificate.read_text())
            properties[f"{prefix}.ssl.keystore.type"] = "PEM"
            properties[f"{prefix}.ssl.keystore.location"] = str(key_store)
        if self.mechanisms:
            properties["sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
        for mechanism in self.mechanisms:
            properties[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = self._login(mechanism)
        return properties

    def scram_credentials(self) -> tuple[str, ...]:
        """Return the users as ``--add-scram`` takes them when storage is formatted; PLAIN needs none."""
        return tuple(
            f"{mechanism}=[name={user},password={password}]"
            for mechanism in self.mechanisms
            if mechanism != "PLAIN"
            for user, password in self.users.items()
        )

    def _login(self, mechanism: Mechanism) -> str:
        if mechanism != "PLAIN":
            return f"{_LOGIN_MODULES}.scram.ScramLoginModule required;"
        users = " ".join(f'user_{user}="{password}"' for user, password in self.users.items())
        return f"{_LOGIN_MODULES}.plain.PlainLoginModule required {users};"
