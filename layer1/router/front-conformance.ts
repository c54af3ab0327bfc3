/** What every HTTP/1 front does, seen from outside through a whole router. */
import { describe } from 'node:test';
import type { Driver } from './config.ts';
import { httpConformance } from './conformance/http.ts';
import { smugglingConformance } from './conformance/smuggling.ts';
import { upgradeConformance } from './conformance/upgrades.ts';

export function frontConformance(driver: Driver): void {
  describe(`the ${driver} front`, () => {
    httpConformance(driver);
    smugglingConformance(driver);
    upgradeConformance(driver);
  });
}
