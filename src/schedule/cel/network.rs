//! Addresses and networks in expressions.
//!
//! Source: Kubernetes, CEL IP and CIDR libraries, which read them as Go's `net/netip` does.

// Of `core`, which has addresses as values and no connections.
use core::net::IpAddr;

use cel::common::types::{CelString, STRING_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use super::functions::{Args, CelResult, int, native, native_value, text, yes};

/// An address, of which IPv6 has no zone and is none of IPv4.
#[derive(Clone, Debug)]
struct Address(IpAddr);
native_value!(Address, ADDRESS_TYPE, "net.IP", |a, b| a.0 == b.0);

/// An address and the number of its leading bits that name the network.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Network {
    address: IpAddr,
    bits: u8,
}
native_value!(Network, NETWORK_TYPE, "net.CIDR", |a, b| a == b);

impl Network {
    fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4((u32::from(address) & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6((u128::from(address) & mask).into())
            }
        };
        Self { address, ..self }
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && Self { address, ..self }.masked() == self.masked()
    }
}

fn address_of(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let is_mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    (!is_mapped).then_some(address)
}

fn network_of(text: &str) -> Option<Network> {
    let (address, bits) = text.rsplit_once('/')?;
    let address = address_of(address)?;
    let is_plain = bits == "0" || (bits.starts_with(|c: char| matches!(c, '1'..='9')) && bits.len() <= 3);
    if !is_plain {
        return None;
    }
    let bits = bits.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    (bits <= width).then_some(Network { address, bits })
}

fn address(args: &Args<'_, '_>, position: usize) -> Result<IpAddr, ExecutionError> {
    address_of(text(args, position)?).ok_or_else(|| ExecutionError::function_error("ip", "no address"))
}

fn network(args: &Args<'_, '_>, position: usize) -> Result<Network, ExecutionError> {
    network_of(text(args, position)?).ok_or_else(|| ExecutionError::function_error("cidr", "no network"))
}

pub(super) fn add_to(env: &mut Env) -> Result<(), DeclarationError> {
    addresses(env)?;
    networks(env)
}

fn addresses(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload("ip", "string_to_ip", vec![STRING_TYPE], |args| Ok(CowVal::owned(Address(address(&args, 0)?))))?;
    env.add_overload("isIP", "is_ip", vec![STRING_TYPE], |args| yes(address_of(text(&args, 0)?).is_some()))?;
    env.add_overload("ip.isCanonical", "ip_is_canonical", vec![STRING_TYPE], |args| {
        yes(address(&args, 0)?.to_string() == text(&args, 0)?)
    })?;
    env.add_overload("string", "ip_to_string", vec![ADDRESS_TYPE], |args| {
        told(native::<Address>(&args, 0)?.0.to_string())
    })?;
    env.add_member_overload("family", "ip_family", ADDRESS_TYPE, vec![], |args| {
        int(if native::<Address>(&args, 0)?.0.is_ipv4() { 4 } else { 6 })
    })?;
    env.add_member_overload("isUnspecified", "ip_is_unspecified", ADDRESS_TYPE, vec![], |args| {
        yes(native::<Address>(&args, 0)?.0.is_unspecified())
    })?;
    env.add_member_overload("isLoopback", "ip_is_loopback", ADDRESS_TYPE, vec![], |args| {
        yes(native::<Address>(&args, 0)?.0.is_loopback())
    })?;
    env.add_member_overload("isLinkLocalMulticast", "ip_is_link_local_multicast", ADDRESS_TYPE, vec![], |args| {
        yes(match native::<Address>(&args, 0)?.0 {
            IpAddr::V4(address) => address.octets().starts_with(&[224, 0, 0]),
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        })
    })?;
    env.add_member_overload("isLinkLocalUnicast", "ip_is_link_local_unicast", ADDRESS_TYPE, vec![], |args| {
        yes(is_link_local(native::<Address>(&args, 0)?.0))
    })?;
    env.add_member_overload("isGlobalUnicast", "ip_is_global_unicast", ADDRESS_TYPE, vec![], |args| {
        let address = native::<Address>(&args, 0)?.0;
        let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
        let is_other = address.is_unspecified() || address.is_loopback() || address.is_multicast();
        yes(!is_broadcast && !is_other && !is_link_local(address))
    })
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn networks(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload("cidr", "string_to_cidr", vec![STRING_TYPE], |args| Ok(CowVal::owned(network(&args, 0)?)))?;
    env.add_overload("isCIDR", "is_cidr", vec![STRING_TYPE], |args| yes(network_of(text(&args, 0)?).is_some()))?;
    env.add_overload("string", "cidr_to_string", vec![NETWORK_TYPE], |args| {
        let Network { address, bits } = native::<Network>(&args, 0)?;
        told(format!("{address}/{bits}"))
    })?;
    env.add_member_overload("ip", "cidr_ip", NETWORK_TYPE, vec![], |args| {
        Ok(CowVal::owned(Address(native::<Network>(&args, 0)?.address)))
    })?;
    env.add_member_overload("masked", "cidr_masked", NETWORK_TYPE, vec![], |args| {
        Ok(CowVal::owned(native::<Network>(&args, 0)?.masked()))
    })?;
    env.add_member_overload("prefixLength", "cidr_prefix_length", NETWORK_TYPE, vec![], |args| {
        int(native::<Network>(&args, 0)?.bits.into())
    })?;
    env.add_member_overload("containsIP", "cidr_contains_ip_string", NETWORK_TYPE, vec![STRING_TYPE], |args| {
        yes(native::<Network>(&args, 0)?.contains(address(&args, 1)?))
    })?;
    env.add_member_overload("containsIP", "cidr_contains_ip_ip", NETWORK_TYPE, vec![ADDRESS_TYPE], |args| {
        yes(native::<Network>(&args, 0)?.contains(native::<Address>(&args, 1)?.0))
    })?;
    env.add_member_overload("containsCIDR", "cidr_contains_cidr_string", NETWORK_TYPE, vec![STRING_TYPE], |args| {
        yes(contains_all(native(&args, 0)?, &network(&args, 1)?))
    })?;
    env.add_member_overload("containsCIDR", "cidr_contains_cidr", NETWORK_TYPE, vec![NETWORK_TYPE], |args| {
        yes(contains_all(native(&args, 0)?, native(&args, 1)?))
    })
}

fn contains_all(whole: &Network, part: &Network) -> bool {
    whole.bits <= part.bits && whole.contains(part.address)
}

#[allow(clippy::unnecessary_wraps, reason = "functions end with it")]
fn told<'b, 'v>(text: String) -> CelResult<'b, 'v> {
    Ok(CowVal::owned(CelString::from(text)))
}
