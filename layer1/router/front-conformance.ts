/** What every HTTP/1 front does, seen from outside through a whole router. */
import { describe } from 'node:test';
import type { Driver } from './config.ts';
import { accessConformance } from './conformance/access.ts';
import { httpConformance } from './conformance/http.ts';
import { limitsConformance } from './conformance/limits.ts';
import { protocolConformance } from './conformance/protocol.ts';
import { smugglingConformance } from './conformance/smuggling.ts';
import { upgradeConformance } from './conformance/upgrades.ts';

export function frontConformance(driver: Driver): void {
  describe(`the ${driver} front`, () => {
    httpConformance(driver);
    protocolConformance(driver);
    limitsConformance(driver);
    smugglingConformance(driver);
    upgradeConformance(driver);
    accessConformance(driver);
  });
}
