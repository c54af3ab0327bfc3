import assert from 'node:assert/strict';
import type { NetworkInterfaceInfo } from 'node:os';
import { test } from 'node:test';
import { chooseAddress, doubtfulAddresses, unreachableKind } from './own-addresses.ts';

const head = 'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n';
const defaultBy = (device: string): string =>
  `${head}${device}\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n`;

function ipv4(address: string, internal = false): NetworkInterfaceInfo {
  return { address, netmask: '255.255.255.0', family: 'IPv4', mac: '', internal, cidr: `${address}/24` };
}
const lo = [ipv4('127.0.0.1', true)];
const docker0 = [ipv4('172.17.0.1')];

test('the address of a host is the one that leads out, whatever its device is called', () => {
  const interfaces = { lo, docker0, eth0: [ipv4('192.0.2.7')], wg0: [ipv4('10.8.0.2')] };
  assert.equal(chooseAddress(defaultBy('eth0'), interfaces), '192.0.2.7');
  assert.equal(chooseAddress(defaultBy('wg0'), interfaces), '10.8.0.2');
  assert.equal(chooseAddress(head, interfaces), '192.0.2.7', 'before its route is there');
});

test('an address that no other machine reaches is chosen only where there is nothing else', () => {
  const eth0 = [ipv4('169.254.7.7'), ipv4('192.0.2.7')];
  assert.equal(chooseAddress(defaultBy('eth0'), { lo, eth0 }), '192.0.2.7');
  // Of IPv6 alone, or before the network is there.
  assert.equal(chooseAddress(head, { lo, docker0 }), '127.0.0.1');
  assert.equal(chooseAddress('', { lo, eth0: [ipv4('169.254.7.7')] }), '127.0.0.1');
});

test('of a machine in a VPN or on a bridge alone that is found which people may say; never what is in containers', () => {
  const inside = {
    lo,
    docker0,
    'br-0123456789ab': [ipv4('172.18.0.1')],
    veth1a: [ipv4('169.254.3.3')],
    flynn0: [ipv4('10.230.0.1')],
    virbr0: [ipv4('192.168.122.1')],
    flwg0: [ipv4('10.231.0.1')],
    mine0: [ipv4('10.229.0.1')],
  };
  assert.deepEqual(doubtfulAddresses('mine0', inside), []);
  const outside = { wg0: [ipv4('10.8.0.2')], 'br-lan': [ipv4('192.0.2.7')] };
  assert.equal(chooseAddress(head, { ...inside, ...outside, mine0: [] }), '127.0.0.1');
  assert.deepEqual(doubtfulAddresses('mine0', { ...inside, ...outside }), [
    { device: 'wg0', address: '10.8.0.2' },
    { device: 'br-lan', address: '192.0.2.7' },
  ]);
});

test('loopback, link-local, multicast and what is not in use lead to no host', () => {
  for (const address of [
    '0.0.0.0',
    '127.0.0.1',
    '127.8.8.8',
    '169.254.0.9',
    '224.0.0.1',
    '239.1.1.1',
    '255.255.255.255',
  ]) {
    assert.ok(unreachableKind(address) !== undefined, address);
  }
  for (const address of ['192.0.2.7', '10.0.0.1', '126.255.255.255', '128.0.0.1', '169.253.1.1', '223.255.255.254']) {
    assert.equal(unreachableKind(address), undefined, address);
  }
});
