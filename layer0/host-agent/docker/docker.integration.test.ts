import { testEngine } from '../engine/conformance.ts';
import { openDocker, testImage } from './fixture.ts';

testEngine('docker', async () => {
  const fixture = await openDocker();
  return { ...fixture, imageName: testImage, network: { type: 'bridge', name: fixture.network.name, dns: [] } };
});
