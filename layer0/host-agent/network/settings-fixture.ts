/** Of a host that all reach, for tests. */
import type { NetworkSettings } from './state.ts';

export const testSettings: NetworkSettings = {
  cluster: 'test',
  hostId: 'one',
  address: '192.0.2.2',
  subnet: '100.100.1.0/24',
  gateway: '100.100.1.1',
  bridge: 'flynn0',
  range: '100.100.0.0/16',
  backend: 'auto',
  vxlanId: 7117,
  vxlanPort: 1115,
  wireguard: { device: 'flwg7117-1', port: 1117, key: 'own', keyFile: '/key' },
};
