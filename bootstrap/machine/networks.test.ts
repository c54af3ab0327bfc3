import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bridgesOfFlynn, machineNetworks, tailscale } from './networks.ts';

const devices = 'Inter-|   Receive\n face |bytes\n    lo: 7 0\n  eth0: 9 0\nnotailscale0: 1 0\n';
const routes = [
  'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT',
  'eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0',
  'eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0',
  'eth0\t00016464\t020200C0\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0',
  'flt1\t00D26464\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0',
  '',
].join('\n');
const near = { device: 'eth0', subnet: '192.0.2.0/24', isOurs: false };
const far = { device: 'eth0', subnet: '100.100.1.0/24', isOurs: false };
const ofTests = { device: 'flt1', subnet: '100.100.210.0/24', isOurs: false };

test('routes are read from the kernel’s table, the default route left out', () => {
  assert.deepEqual(machineNetworks({ routes, devices, left: [], labelled: [] }), [near, far, ofTests]);
});

test('ways to other hosts that an agent left behind are nobody’s network; one of that subnet by another device is', () => {
  const known = (device: string) =>
    machineNetworks({ routes, devices, left: [{ device, subnet: far.subnet }], labelled: [] });
  assert.deepEqual(known('eth0'), [near, ofTests]);
  assert.deepEqual(known('flynnvx7117'), [near, far, ofTests]);
});

test('networks that the engine made for flynn are known as such, by its label', () => {
  const labelled = bridgesOfFlynn([
    { Id: 'a'.repeat(64), Labels: {}, Options: { 'com.docker.network.bridge.name': 'eth0' } },
    { Id: 'b'.repeat(64), Labels: null, Options: null },
    { Id: `0123456789ab${'c'.repeat(52)}`, Labels: { 'flynn.test': '1' }, Options: {} },
    { Id: 'd'.repeat(64), Labels: { 'flynn.cluster': 'x' }, Options: { 'com.docker.network.bridge.name': 'flt1' } },
  ]);
  assert.deepEqual(labelled, ['br-0123456789ab', 'flt1']);
  const networks = machineNetworks({ routes, devices, left: [], labelled });
  assert.deepEqual(networks, [near, far, { ...ofTests, isOurs: true }]);
});

test('a VPN that no route tells of is known by its device', () => {
  const withVpn = machineNetworks({ routes: '', devices: `${devices}tailscale0: 9 0\n`, left: [], labelled: [] });
  assert.deepEqual(withVpn, [tailscale]);
});
