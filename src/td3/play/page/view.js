// Draws a simulation with three.js.

import * as THREE from "./vendor/three.js";
import { PATTERN, makeBodies } from "./bodies.js";
import { Pointer } from "./pointer.js";

const FREE_JOINT = 0;
const SKY = 0xbfd4e6;
const RED = 0xc81e1e;

// Where the camera looks from: distance, height of the target, elevation and azimuth in degrees.
const CAMERAS = {
  "Ant-v5": [5, 0.5, 25, 70],
  "HalfCheetah-v5": [3.6, 0.6, 12, 90],
  "Hopper-v5": [3.6, 0.8, 10, 90],
  "Humanoid-v5": [4.2, 1.0, 12, 60],
  "InvertedDoublePendulum-v5": [3.6, 0.5, 8, 90],
  "InvertedPendulum-v5": [2.6, 0.2, 8, 90],
  "Reacher-v5": [0.75, 0, 65, 90],
  "Swimmer-v5": [4, 0, 55, 90],
  "Walker2d-v5": [4, 0.8, 10, 90],
};

export class View {
  constructor(canvas) {
    this.canvas = canvas;
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias: true });
    this.renderer.shadowMap.enabled = true;
    this.renderer.shadowMap.type = THREE.PCFShadowMap;
    this.camera = new THREE.PerspectiveCamera(42, 1, 0.01, 200);
    this.camera.up.set(0, 0, 1);
    this.target = new THREE.Vector3();
    this.pointer = new Pointer(this);
  }

  /** Free the graphics memory; a browser allows few pages of graphics at a time. */
  dispose() {
    this.renderer.dispose();
    this.renderer.forceContextLoss();
  }

  /** Show another simulation. */
  show(simulation) {
    this.pointer.release();
    this.simulation = simulation;
    const [distance, lift, elevation, azimuth] = CAMERAS[simulation.policy.card.task];
    Object.assign(this, { distance, lift, elevation, azimuth });
    this.scene?.traverse((object) => {
      object.geometry?.dispose();
      object.material?.map?.dispose();
      object.material?.dispose();
    });
    this.scene = new THREE.Scene();
    this.scene.background = new THREE.Color(SKY);
    this.scene.fog = new THREE.Fog(SKY, 4 * distance, 14 * distance);
    this.addLights(distance);
    this.bodies = makeBodies(simulation.model);
    this.arrow = new THREE.ArrowHelper(new THREE.Vector3(1, 0, 0), undefined, 1, RED);
    this.scene.add(...this.bodies, this.arrow);
    this.floors = this.bodies[0].children.filter(({ userData }) => userData.isFloor);
  }

  addLights(distance) {
    this.scene.add(new THREE.HemisphereLight(0xffffff, 0x8890a0, 2));
    this.sun = new THREE.DirectionalLight(0xffffff, 2);
    this.sun.castShadow = true;
    this.sun.shadow.mapSize.set(1024, 1024);
    const { camera } = this.sun.shadow;
    camera.left = camera.bottom = -distance;
    camera.right = camera.top = distance;
    camera.far = 6 * distance;
    this.sun.shadow.normalBias = 0.005 * distance;
    this.scene.add(this.sun, this.sun.target);
  }

  /** Draw the present state. */
  draw(quality) {
    this.fit(quality.ratio);
    this.sun.castShadow = quality.shadows;
    const { data, model } = this.simulation;
    this.bodies.forEach((group, body) => {
      group.position.fromArray(data.xpos, 3 * body);
      const [w, x, y, z] = data.xquat.subarray(4 * body, 4 * body + 4);
      group.quaternion.set(x, y, z, w);
    });
    this.follow(model, data);
    this.pointer.draw(this.arrow);
    this.renderer.render(this.scene, this.camera);
  }

  fit(ratio) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (this.width === width && this.height === height && this.ratio === ratio) return;
    Object.assign(this, { width, height, ratio });
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
  }

  /** Let the camera follow a body that moves over the floor. */
  follow(model, data) {
    const isFree = model.jnt_type[0] === FREE_JOINT || model.body_jntnum[1] > 1;
    const [x, y] = isFree ? data.xpos.subarray(3, 5) : [0, 0];
    this.target.set(x, y, this.lift);
    for (const { position } of this.floors) {
      position.x = PATTERN * Math.round(x / PATTERN);
      position.y = PATTERN * Math.round(y / PATTERN);
    }
    const tilt = (this.elevation * Math.PI) / 180;
    const turn = (this.azimuth * Math.PI) / 180;
    const narrow = Math.max(1, 1.15 / this.camera.aspect); // step back on a narrow screen
    const flat = Math.cos(tilt) * this.distance * narrow;
    this.camera.position.set(
      x - flat * Math.cos(turn),
      y - flat * Math.sin(turn),
      this.target.z + Math.sin(tilt) * this.distance * narrow,
    );
    this.camera.lookAt(this.target);
    this.sun.position.set(x - this.distance, y - this.distance, 3 * this.distance);
    this.sun.target.position.copy(this.target);
  }
}
