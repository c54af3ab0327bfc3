import { testEngine } from './conformance.ts';
import { openDocker, testImage } from './docker-fixture.ts';

testEngine('docker', async () => {
  const fixture = await openDocker();
  return { ...fixture, imageName: testImage, network: { type: 'bridge', name: fixture.network.name, dns: [] } };
});
